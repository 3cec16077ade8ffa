//! Counts the keys in an RDB file as it passes, without looking into values. Pure.
//!
//! A type of value that is not known here ends the count, but not the backup. The number of keys is then approximate.
//! <https://rdb.fnordig.de/file_format.html>, newer types: <https://github.com/redis/redis/blob/8.0.0/src/rdb.h>
//! No maintained crate reads these and Valkey's files.

use std::collections::BTreeMap;

use tokio::sync::mpsc::Receiver;
use tokio_util::bytes::{Buf, Bytes};

/// Bytes of the header.
const HEAD: u64 = 9;

/// The reasons why keys are not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uncounted {
    /// The file is cut off.
    Short,
    /// A type or an opcode that is not known here.
    Unknown(u8),
}

/// Keys by database. Blocks while it waits for bytes, so it needs a thread of its own.
pub fn count(chunks: Receiver<Bytes>) -> Result<BTreeMap<u32, u64>, Uncounted> {
    let mut reader = Reader { chunks, chunk: Bytes::new() };
    reader.file()
}

/// A length, or the number of a special encoding that follows instead of that many bytes.
enum Length {
    Bytes(u64),
    Packed(u8),
}

struct Reader {
    chunks: Receiver<Bytes>,
    chunk: Bytes,
}

impl Reader {
    fn file(&mut self) -> Result<BTreeMap<u32, u64>, Uncounted> {
        let is_valkey = self.byte()? == b'V';
        self.skip(HEAD - 1)?;
        let mut found = BTreeMap::new();
        let mut database = 0;
        loop {
            match self.byte()? {
                0xFF => return Ok(found),
                0xFE => database = u32::try_from(self.number()?).unwrap_or(u32::MAX),
                0xFD => self.skip(4)?,
                0xFC => self.skip(8)?,
                0xFB => self.numbers(2)?,
                0xFA => self.strings(2)?,
                0xF9 => self.skip(1)?,
                0xF8 => self.numbers(1)?,
                0xF7 => {
                    self.numbers(3)?;
                    self.module()?;
                }
                0xF5 => self.string()?,
                0xF4 => self.numbers(3)?,
                kind if kind < 0x80 => {
                    self.string()?;
                    self.value(kind, is_valkey)?;
                    *found.entry(database).or_default() += 1;
                }
                unknown => return Err(Uncounted::Unknown(unknown)),
            }
        }
    }

    fn value(&mut self, kind: u8, is_valkey: bool) -> Result<(), Uncounted> {
        match kind {
            0 | 9..=13 | 16 | 17 | 20 => self.string(),
            1 | 2 | 14 => self.each(Self::string),
            3 => self.each(|reader| {
                reader.string()?;
                match reader.byte()? {
                    253..=255 => Ok(()),
                    length => reader.skip(length.into()),
                }
            }),
            4 => self.each(|reader| reader.strings(2)),
            5 => self.each(|reader| {
                reader.string()?;
                reader.skip(8)
            }),
            7 => {
                self.numbers(1)?;
                self.module()
            }
            15 => self.stream(1),
            19 => self.stream(2),
            21 => self.stream(3),
            18 => self.each(|reader| {
                reader.numbers(1)?;
                reader.string()
            }),
            22 if is_valkey => self.each(|reader| {
                reader.strings(2)?;
                reader.skip(8)
            }),
            24 => {
                self.skip(8)?;
                self.each(|reader| {
                    reader.numbers(1)?;
                    reader.strings(2)
                })
            }
            25 => {
                self.skip(8)?;
                self.string()
            }
            unknown => Err(Uncounted::Unknown(unknown)),
        }
    }

    fn stream(&mut self, version: u8) -> Result<(), Uncounted> {
        self.each(|reader| reader.strings(2))?;
        // Three numbers: how many entries there are, and the ID of the last one (two numbers). Version 2 adds five: the ID of
        // the first one, the highest deleted ID, and how many entries were ever added.
        self.numbers(if version >= 2 { 3 + 5 } else { 3 })?;
        self.each(|group| {
            group.string()?;
            group.numbers(if version >= 2 { 3 } else { 2 })?;
            group.each(|pending| {
                pending.skip(16 + 8)?;
                pending.numbers(1)
            })?;
            group.each(|consumer| {
                consumer.string()?;
                consumer.skip(if version >= 3 { 16 } else { 8 })?;
                consumer.each(|pending| pending.skip(16))
            })
        })
    }

    /// A value of a module: an opcode before each part says what the part is.
    fn module(&mut self) -> Result<(), Uncounted> {
        loop {
            match self.number()? {
                0 => return Ok(()),
                1 | 2 => self.numbers(1)?,
                3 => self.skip(4)?,
                4 => self.skip(8)?,
                5 => self.string()?,
                unknown => return Err(Uncounted::Unknown(u8::try_from(unknown).unwrap_or(u8::MAX))),
            }
        }
    }

    fn each(&mut self, mut part: impl FnMut(&mut Self) -> Result<(), Uncounted>) -> Result<(), Uncounted> {
        for _ in 0..self.number()? {
            part(self)?;
        }
        Ok(())
    }

    fn strings(&mut self, count: usize) -> Result<(), Uncounted> {
        (0..count).try_for_each(|_| self.string())
    }

    fn string(&mut self) -> Result<(), Uncounted> {
        match self.length()? {
            Length::Bytes(length) => self.skip(length),
            Length::Packed(0) => self.skip(1),
            Length::Packed(1) => self.skip(2),
            Length::Packed(2) => self.skip(4),
            Length::Packed(3) => {
                let packed = self.number()?;
                self.numbers(1)?;
                self.skip(packed)
            }
            Length::Packed(unknown) => Err(Uncounted::Unknown(unknown)),
        }
    }

    fn numbers(&mut self, count: usize) -> Result<(), Uncounted> {
        (0..count).try_for_each(|_| self.number().map(drop))
    }

    fn number(&mut self) -> Result<u64, Uncounted> {
        match self.length()? {
            Length::Bytes(number) => Ok(number),
            Length::Packed(unknown) => Err(Uncounted::Unknown(unknown)),
        }
    }

    fn length(&mut self) -> Result<Length, Uncounted> {
        let first = self.byte()?;
        let low = u64::from(first & 0x3F);
        match (first >> 6, first) {
            (0, _) => Ok(Length::Bytes(low)),
            (1, _) => Ok(Length::Bytes(low << 8 | u64::from(self.byte()?))),
            (2, 0x80) => self.big_endian(4).map(Length::Bytes),
            (2, 0x81) => self.big_endian(8).map(Length::Bytes),
            (2, unknown) => Err(Uncounted::Unknown(unknown)),
            _ => Ok(Length::Packed(first & 0x3F)),
        }
    }

    fn big_endian(&mut self, bytes: usize) -> Result<u64, Uncounted> {
        let mut number = 0;
        for _ in 0..bytes {
            number = number << 8 | u64::from(self.byte()?);
        }
        Ok(number)
    }

    fn byte(&mut self) -> Result<u8, Uncounted> {
        self.fill()?;
        Ok(self.chunk.get_u8())
    }

    fn skip(&mut self, mut bytes: u64) -> Result<(), Uncounted> {
        while bytes > 0 {
            self.fill()?;
            let now = self.chunk.len().min(usize::try_from(bytes).unwrap_or(usize::MAX));
            self.chunk.advance(now);
            bytes -= now as u64;
        }
        Ok(())
    }

    fn fill(&mut self) -> Result<(), Uncounted> {
        while self.chunk.is_empty() {
            self.chunk = self.chunks.blocking_recv().ok_or(Uncounted::Short)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(file: &[u8], cut: usize) -> Result<BTreeMap<u32, u64>, Uncounted> {
        let (sender, receiver) = tokio::sync::mpsc::channel(file.len() + 1);
        for chunk in file.chunks(cut) {
            sender.blocking_send(Bytes::copy_from_slice(chunk)).unwrap();
        }
        drop(sender);
        count(receiver)
    }

    /// Two databases: a string, an integer, a compressed string that expires, a list, a hash and a sorted set.
    fn file() -> Vec<u8> {
        let mut file = b"REDIS0011\xFA\x09redis-ver\x067.0.15\xFA\x0Aredis-bits\xC0\x40\xF5\x03lib".to_vec();
        file.extend(b"\xFE\x00\xFB\x04\x01");
        file.extend(b"\x00\x01a\x05value");
        file.extend(b"\x00\x01b\xC1\x39\x30");
        file.extend(b"\xFC\0\0\0\0\0\0\0\0\x00\x01c\xC3\x04\x40\x64lzf!");
        file.extend(b"\x12\x01d\x02\x02\x03abc\x01\x03def");
        file.extend(b"\xFE\x09\xFB\x02\x00\xF9\x05");
        file.extend(b"\x04\x01e\x01\x05field\x80\0\0\0\x03val");
        file.extend(b"\x05\x01f\x01\x01m\0\0\0\0\0\0\xF0\x3F");
        file.extend(b"\xFF\0\0\0\0\0\0\0\0");
        file
    }

    #[test]
    fn keys_are_counted_by_database_however_the_file_is_cut() {
        for cut in 1..file().len() {
            assert_eq!(counted(&file(), cut), Ok(BTreeMap::from([(0, 4), (9, 2)])), "cut at {cut}");
        }
    }

    #[test]
    fn a_file_that_ends_early_is_not_counted() {
        let file = file();
        for end in 0..file.len() - 9 {
            assert_eq!(counted(&file[..end], 7), Err(Uncounted::Short), "of {end} bytes");
        }
    }

    #[test]
    fn an_unknown_type_ends_the_count() {
        assert_eq!(counted(b"REDIS0099\xFE\x00\x63\x01k", 100), Err(Uncounted::Unknown(0x63)));
        assert_eq!(counted(b"REDIS0099\xE0", 100), Err(Uncounted::Unknown(0xE0)));
    }

    #[test]
    fn a_stream_with_a_group_is_passed() {
        let mut file = b"REDIS0011\xFE\x00\x15\x01s".to_vec();
        file.extend(b"\x01\x03key\x04list");
        file.extend(b"\x01\x05\x00\x05\x00\x00\x00\x01");
        file.extend(b"\x01\x05group\x05\x00\x01");
        file.extend(b"\x01");
        file.extend([7; 24]);
        file.extend(b"\x01");
        file.extend(b"\x01\x03bob");
        file.extend([7; 16]);
        file.extend(b"\x01");
        file.extend([7; 16]);
        file.extend(b"\x00\x01k\x01v\xFF");
        assert_eq!(counted(&file, 5), Ok(BTreeMap::from([(0, 2)])));
    }
}
