//! The header of a `.npy` file: a Python dictionary.

/// NumPy's own bound on the number of dimensions.
const MAX_DIMENSIONS: usize = 64;

/// A place in the text, and what is wrong there.
type Wrong = (usize, String);

/// What the dictionary says.
pub(super) struct Header {
    pub descr: String,
    pub fortran_order: bool,
    pub shape: Vec<usize>,
}

impl Header {
    /// Reads `{'descr': '<f8', 'fortran_order': False, 'shape': (200, 88), }`, or says what is wrong
    /// where.
    pub fn parse(bytes: &[u8]) -> Result<Header, Wrong> {
        let mut text = Text { bytes, at: 0 };
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        text.expect(b'{')?;
        while !text.next_is(b'}') {
            let key = text.quoted()?;
            text.expect(b':')?;
            match key.as_str() {
                "descr" => descr = Some(text.quoted()?),
                "fortran_order" => fortran_order = Some(text.truth()?),
                "shape" => shape = Some(text.tuple()?),
                _ => return Err((text.at, format!("an unknown key {key:?}"))),
            }
            if !text.next_is(b',') {
                text.expect(b'}')?;
                break;
            }
        }
        text.skip_space();
        match (descr, fortran_order, shape) {
            _ if text.at < bytes.len() => Err((text.at, "text behind the dictionary".to_owned())),
            (Some(descr), Some(fortran_order), Some(shape)) => {
                Ok(Header { descr, fortran_order, shape })
            }
            _ => Err((text.at, "descr, fortran_order or shape is missing".to_owned())),
        }
    }
}

/// A place in the text of a header.
struct Text<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Text<'_> {
    fn skip_space(&mut self) {
        let rest = &self.bytes[self.at..];
        self.at += rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    }

    /// Passes over this character, if it is the next one.
    fn next_is(&mut self, byte: u8) -> bool {
        self.skip_space();
        let found = self.bytes.get(self.at) == Some(&byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8) -> Result<(), Wrong> {
        match self.next_is(byte) {
            true => Ok(()),
            false => Err((self.at, format!("'{}' should be here", char::from(byte)))),
        }
    }

    /// The characters from here on that are of a kind.
    fn run(&mut self, kind: impl Fn(&u8) -> bool) -> String {
        let rest = &self.bytes[self.at..];
        let run: String =
            rest.iter().take_while(|byte| kind(byte)).map(|byte| char::from(*byte)).collect();
        self.at += rest.iter().take_while(|byte| kind(byte)).count();
        run
    }

    fn quoted(&mut self) -> Result<String, Wrong> {
        let quote = if self.next_is(b'"') { b'"' } else { b'\'' };
        if quote == b'\'' {
            self.expect(quote)?;
        }
        let text = self.run(|byte| *byte != quote && byte.is_ascii_graphic());
        self.expect(quote)?;
        Ok(text)
    }

    fn truth(&mut self) -> Result<bool, Wrong> {
        self.skip_space();
        match self.run(u8::is_ascii_alphabetic).as_str() {
            "True" => Ok(true),
            "False" => Ok(false),
            _ => Err((self.at, "True or False should be here".to_owned())),
        }
    }

    /// Numbers in parentheses; Python 2 wrote an L behind each.
    fn tuple(&mut self) -> Result<Vec<usize>, Wrong> {
        self.expect(b'(')?;
        let mut numbers = Vec::new();
        while !self.next_is(b')') {
            let number = self.run(u8::is_ascii_digit).parse();
            numbers.push(number.map_err(|error| (self.at, format!("in the shape: {error}")))?);
            let _long = self.bytes.get(self.at) == Some(&b'L') && self.next_is(b'L');
            if numbers.len() > MAX_DIMENSIONS {
                return Err((self.at, format!("more than {MAX_DIMENSIONS} dimensions")));
            }
            if !self.next_is(b',') {
                self.expect(b')')?;
                break;
            }
        }
        Ok(numbers)
    }
}
