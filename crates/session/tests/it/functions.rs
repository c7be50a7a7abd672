//! Functions of single elements, which need no lists of operands, are what the table makes of them.

use lanthorn_ir::expr::Scalar;
use lanthorn_ir::ops::table::OPS;
use lanthorn_ir::prim::Elementwise;
use lanthorn_ir::{DType, Error, TensorType};
use lanthorn_session::{Description, Handle};

use super::support::Face;

/// Types of two operands: of one type, broadcast, of other dtypes, and what no function takes.
const OPERANDS: &[[(DType, &[usize]); 2]] = &[
    [(DType::F32, &[2, 3]), (DType::F32, &[2, 3])],
    [(DType::F32, &[2, 1]), (DType::F32, &[3])],
    [(DType::F32, &[2, 3]), (DType::F64, &[])],
    [(DType::F16, &[4]), (DType::F16, &[4])],
    [(DType::I32, &[4]), (DType::I32, &[4])],
    [(DType::Bool, &[4]), (DType::Bool, &[4])],
    [(DType::C64, &[2]), (DType::C64, &[2])],
    [(DType::F8E4M3, &[2]), (DType::F8E4M3, &[2])],
    [(DType::F32, &[2, 3]), (DType::F32, &[4])],
    [(DType::F32, &[2]), (DType::I64, &[2])],
    [(DType::F32, &[1, 1, 1, 1, 2]), (DType::F32, &[1, 1, 1, 1, 2])],
];

fn tensor(face: &mut Face, (dtype, shape): (DType, &[usize]), step: f64) -> Handle {
    let ty = TensorType::new(dtype, shape);
    let element = |at: usize| Scalar::float((at as f64 + 1.0) * step).to_bytes(dtype);
    let bytes: Vec<u8> = (0..ty.numel()).flat_map(|at| element(at)[..dtype.size()].to_vec()).collect();
    face.session.create(&ty, &bytes).unwrap()
}

/// What a result is and, by text, so that NaN is NaN, what it holds.
fn about(face: &mut Face, result: Result<Handle, Error>) -> Result<(Description, String), Error> {
    let result = result?;
    let description = face.session.describe(result)?;
    let elements = face.session.read(result).map(|(_, elements)| format!("{:?}", elements.to_f64_vec()));
    face.release(&[result]);
    Ok((description, format!("{elements:?}")))
}

#[test]
fn an_op_without_lists_is_the_op_of_the_table() {
    let mut face = Face::new();
    let (mut functions, mut results) = (0, 0);
    for (id, op) in OPS.iter().enumerate() {
        let Some(function) = op.elementwise else { continue };
        functions += 1;
        for types in OPERANDS {
            let [x, y] = [(types[0], 0.25), (types[1], 0.5)].map(|(ty, step)| tensor(&mut face, ty, step));
            if types[0].0 == DType::F32 {
                face.session.requires_grad(x, true).unwrap();
            }
            let (found, given) = match function {
                Elementwise::Unary(function) => (face.session.unary(op, function, x), vec![Some(x)]),
                Elementwise::Binary(function) => {
                    (face.session.binary(op, function, x, y), vec![Some(x), Some(y)])
                }
                other => panic!("{} is {other:?}", op.name),
            };
            let expected = face.session.op(id, &given, &[]).map(|handles| handles[0]);
            let (found, expected) = (about(&mut face, found), about(&mut face, expected));
            assert_eq!(found, expected, "{} of {types:?}", op.name);
            results += usize::from(found.is_ok());
            face.release(&[x, y]);
        }
    }
    assert!(functions > 60 && results > 300, "{functions} functions, {results} results");
    assert_eq!(face.session.stats().handles, 0);
}

#[test]
fn the_table_knows_which_function_an_op_is() {
    let function = |name: &str| OPS.iter().find(|op| op.name == name).unwrap().elementwise;
    for (name, op) in [("add", "Binary(Add)"), ("logical_not", "Unary(Not)"), ("erfc", "Unary(Erfc)")] {
        assert_eq!(format!("{:?}", function(name).unwrap()), op);
    }
    // Compositions, and ops with an attribute.
    for name in ["square", "add_scalar", "cast", "where", "softmax"] {
        assert_eq!(function(name), None, "{name}");
    }
}
