//! Commands as a shell would read them: as much of its grammar as a guide needs.

/// The commands of a text, in words. Comments, redirections and assignments before a command are
/// left out; pipes and `&&` separate commands.
pub fn commands(text: &str) -> Vec<Vec<String>> {
    let text = text.replace("\\\n", " ");
    text.lines().flat_map(of_line).collect()
}

fn of_line(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut redirected = false;
    for word in split(line) {
        let last = commands.last_mut().unwrap();
        match word.as_str() {
            "|" | "&&" | ";" => commands.push(Vec::new()),
            ">" | ">>" | "<" => redirected = true,
            _ if redirected => redirected = false,
            _ if last.is_empty() && is_assignment(&word) => (),
            _ => last.push(word),
        }
    }
    commands.retain(|command| !command.is_empty());
    commands
}

/// `NAME=value`
fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map_or("", |(name, _)| name);
    !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
}

/// Words, with quotes taken off, up to a comment.
fn split(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in line.chars() {
        match (quote, c) {
            (Some(q), _) if c == q => quote = None,
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, _) if c.is_whitespace() => words.extend(word.take()),
            (None, '#') if word.is_none() => break,
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[test]
fn words_are_what_a_shell_makes_of_them() {
    let text = "A_B=1 santa train x --set 'a = 1' --set b=\"5 %\" # comment\n\n\
                # nothing\nsanta man > page.1\ncargo x |\\\n less && cd y\n";
    let expected: &[&[&str]] = &[
        &["santa", "train", "x", "--set", "a = 1", "--set", "b=5 %"],
        &["santa", "man"],
        &["cargo", "x"],
        &["less"],
        &["cd", "y"],
    ];
    assert_eq!(commands(text), expected);
}
