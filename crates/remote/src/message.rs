//! The messages and their bytes.
//!
//! A batch is messages one after the other in the form of `postcard`, without a frame. Tensors and programs have
//! numbers that the client gives and never gives twice.

use lanthorn_ir::{Error, ErrorKind, Result, TensorType};
use serde::{Deserialize, Serialize, Serializer};

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Message<'a> {
    /// Makes the tensor `id` of elements in row-major order.
    Upload {
        id: u64,
        ty: TensorType,
        #[serde(borrow)]
        bytes: Bytes<'a>,
    },
    /// Makes a program known under a number, as [`Indexed`](lanthorn_compiler::indexed::Indexed) writes it.
    Define {
        program: u32,
        #[serde(borrow)]
        bytes: Bytes<'a>,
    },
    /// Runs a program; its results get the numbers of `results`, whether it succeeds or not.
    Run { program: u32, arguments: Vec<u64>, results: Vec<u64> },
    /// Lets a tensor go.
    Drop { id: u64 },
    /// Lets a program go.
    Forget { program: u32 },
    /// Asks for the elements of a tensor as they are now; the reply carries the number of the request.
    Read { request: u32, id: u64 },
}

/// Bytes that are written and read as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Bytes<'a>(pub &'a [u8]);

impl Serialize for Bytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

fn malformed(message: String) -> Error {
    Error::new(ErrorKind::Format, "message", message)
}

impl<'a> Message<'a> {
    /// Appends the message to a batch.
    pub fn write(&self, batch: &mut Vec<u8>) -> Result<()> {
        let taken = std::mem::take(batch);
        *batch = postcard::to_extend(self, taken).map_err(|error| malformed(error.to_string()))?;
        Ok(())
    }

    /// The first message of a batch and what follows it.
    ///
    /// Errors: bytes that are no message.
    pub fn read(batch: &'a [u8]) -> Result<(Message<'a>, &'a [u8])> {
        postcard::take_from_bytes(batch)
            .map_err(|error| malformed(format!("a batch does not continue with a message: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use lanthorn_ir::DType;

    use super::*;

    #[test]
    fn a_batch_gives_its_messages_back_in_order() {
        let elements = [1u8, 2, 3, 4, 5, 6];
        let messages = [
            Message::Upload { id: 1, ty: TensorType::new(DType::U8, [2, 3]), bytes: Bytes(&elements) },
            Message::Define { program: 7, bytes: Bytes(&[]) },
            Message::Run { program: 7, arguments: vec![1, 300], results: vec![u64::MAX] },
            Message::Read { request: 9, id: u64::MAX },
            Message::Drop { id: 1 },
            Message::Forget { program: 7 },
        ];
        let mut batch = Vec::new();
        messages.iter().for_each(|message| message.write(&mut batch).unwrap());
        let mut rest = batch.as_slice();
        for message in &messages {
            let (read, after) = Message::read(rest).unwrap();
            assert_eq!(&read, message);
            rest = after;
        }
        assert!(rest.is_empty());
        assert_eq!(Message::read(rest).unwrap_err().kind, ErrorKind::Format);
        assert!(Message::read(&batch[..5]).is_err());
    }
}
