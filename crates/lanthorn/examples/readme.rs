use lanthorn::prelude::*;

fn main() -> Result<()> {
    let device = Device::cpu();
    let rows = include_bytes!("../../../examples/data/digits.bin").chunks_exact(65); // 64 pixels and a digit
    let pixels = rows.clone().flat_map(|row| row[..64].iter().map(|&ink| f32::from(ink) / 16.0)).collect();
    let labels = rows.map(|row| i64::from(row[64])).collect();
    let images = Tensor::from_vec(&device, &[1797, 64], pixels)?;
    let labels = Tensor::from_vec(&device, &[1797], labels)?;
    let random = |shape: &[usize]| Tensor::randn(&device, shape, DType::F32)? * 0.15;
    let mut network = vec![random(&[64, 64])?, random(&[10, 64])?];
    let scores = |w: &[Tensor], x: &Tensor| x.linear(&w[0], None)?.relu()?.linear(&w[1], None);
    let step = compile(move |a| {
        let loss = |w: &[Tensor]| scores(w, &a[2])?.cross_entropy(&a[3], Reduction::Mean, None);
        let (_, grads) = value_and_grad(loss, &a[..2])?;
        a.iter().zip(&grads).map(|(w, g)| w - g * 0.5).collect()
    });
    for _ in 0..200 {
        network = step.call(&[&network[..], &[images.clone(), labels.clone()]].concat())?;
    }
    let right = scores(&network, &images)?.argmax(Some(-1), false)?.eq(&labels)?;
    println!("{:.1} % of the digits are read", 100.0 * right.cast(DType::F32)?.mean(&[], false)?.item()?);
    Ok(())
}
