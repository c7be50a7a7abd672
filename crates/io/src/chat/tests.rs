//! Texts are held against Hugging Face's own function; see `fixtures/chat/make.py`.

use super::*;
use proptest::prelude::*;
use serde::Deserialize;

#[derive(Deserialize)]
struct Expected {
    conversations: BTreeMap<String, Vec<Value>>,
    variables: BTreeMap<String, BTreeMap<String, Value>>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    template: String,
    conversation: String,
    variables: String,
    begun: bool,
    text: Option<String>,
    error: Option<String>,
}

const TEMPLATES: [(&str, &str); 6] = [
    ("smollm2", include_str!("../../fixtures/chat/smollm2.jinja")),
    ("mistral", include_str!("../../fixtures/chat/mistral.jinja")),
    ("zephyr", include_str!("../../fixtures/chat/zephyr.jinja")),
    ("phi3", include_str!("../../fixtures/chat/phi3.jinja")),
    ("qwen25", include_str!("../../fixtures/chat/qwen25.jinja")),
    ("constructs", include_str!("../../fixtures/chat/constructs.jinja")),
];

fn named(name: &str) -> &'static str {
    TEMPLATES.iter().find(|(known, _)| *known == name).unwrap().1
}

fn render(source: &str) -> Result<String> {
    ChatTemplate::new("model.gguf", source)?.render(&[Message::new("user", "Hello")], Reply::NotBegun)
}

fn refusal(source: &str) -> String {
    let message = render(source).unwrap_err().to_string();
    assert!(message.starts_with("model.gguf: the chat template ") && message.len() < 400, "{message}");
    message
}

#[test]
fn conversations_become_the_texts_that_transformers_makes() {
    let expected: Expected = serde_json::from_str(include_str!("../../fixtures/chat/expected.json")).unwrap();
    let (mut texts, mut errors) = (0, 0);
    for case in &expected.cases {
        let mut template = ChatTemplate::new(&*case.template, named(&case.template)).unwrap();
        for (name, value) in &expected.variables[&case.variables] {
            template = template.with(name, value);
        }
        let reply = if case.begun { Reply::Begun } else { Reply::NotBegun };
        let rendered = template.render(&expected.conversations[&case.conversation], reply);
        let what = format!("{}, {}, {}, {reply:?}", case.template, case.conversation, case.variables);
        match (&case.text, &case.error) {
            (Some(text), _) => {
                texts += 1;
                assert_eq!(&rendered.unwrap_or_else(|error| panic!("{what}: {error}")), text, "{what}");
            }
            (None, raised) => {
                errors += 1;
                let message = rendered.expect_err(&what).to_string();
                assert!(raised.as_ref().is_none_or(|raised| message.contains(raised)), "{what}: {message}");
            }
        }
    }
    assert!(texts >= 100 && errors >= 20, "{texts} texts and {errors} errors are not the fixture");
}

#[test]
fn a_template_refuses_in_its_own_words() {
    let template = ChatTemplate::new("model.gguf", named("mistral")).unwrap();
    let messages = [Message::new("user", "a"), Message::new("user", "b")];
    assert_eq!(
        template.render(&messages, Reply::Begun).unwrap_err().to_string(),
        "model.gguf: the chat template refuses the messages: Conversation roles must alternate \
         user/assistant/user/assistant/...; messages as the template wants them would be right"
    );
    // Also from inside a macro, which wraps errors.
    let nested = "{% macro check() %}{{ raise_exception('no ' ~ 1) }}{% endmacro %}\n{{ check() }}";
    assert!(refusal(nested).contains("refuses the messages: no 1;"));
}

#[test]
fn what_is_no_template_or_fails_is_told_with_its_line() {
    for (source, reason) in [
        ("a\n{% for %}", "is no Jinja: line 2: unexpected end of block"),
        ("{{ 'a", "is no Jinja: line 1: unexpected end of string"),
        ("{% generation %}a", "is no Jinja: line 1: unexpected end of input"),
        ("\n\n{{ messages[0].role.content.text }}", "fails: line 3: undefined value"),
        ("{{ nothing() }}", "fails: line 1: nothing is unknown"),
        ("{{ 1 | nothing }}", "line 1: filter nothing is unknown"),
        ("{{ 'a'.nothing() }}", "fails: line 1: string has no method named nothing"),
        ("{{ strftime_now('%!') }}", "fails: line 1: strftime formatting failed"),
        ("{{ 1 | tojson(colour='red') }}", "fails: line 1: unknown keyword argument 'colour'"),
    ] {
        let message = refusal(source);
        assert!(message.contains(reason), "{message}\nshould say: {reason}");
    }
}

#[test]
fn a_hostile_template_is_stopped() {
    let nest = |depth: usize| {
        let (open, close) = ("{% for i in range(9999) %}".repeat(depth), "{% endfor %}".repeat(depth));
        format!("{open}{close}")
    };
    let deep =
        |open: &str, close: &str| format!("{{{{ {}1{} }}}}", open.repeat(50_000), close.repeat(50_000));
    for (source, reason) in [
        (nest(3), "takes more than 2000000 steps"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}".to_owned(), "fails: line 1:"),
        ("{% include 'chat' %}".to_owned(), "fails: line 1:"),
        (
            "{% for i in range(999) %}{{ 'x' * 1000000 }}{% endfor %}".to_owned(),
            "gives more than 67108864 bytes",
        ),
        ("{{ range(999999999) }}".to_owned(), "range has too many elements"),
        ("{{ 'x' * 999999999999 }}".to_owned(), "repeated string is too large"),
        (deep("(", ")"), "is no Jinja: line 1: template exceeds maximum recursion limits"),
        (deep("[", "]"), "is no Jinja: line 1: template exceeds maximum recursion limits"),
        ("x".repeat(LONGEST_TEMPLATE + 1), "the chat template has 131073 bytes; at most 131072 are read"),
    ] {
        let message = refusal(&source);
        assert!(message.contains(reason), "{message}\nshould say: {reason}");
    }
    // The deepest that the limits allow: expressions, conditions, and values that are built, compared, shown and dropped.
    let longest = |opening: &str, closing: &str, piece: &str| {
        let pieces = (LONGEST_TEMPLATE - opening.len() - closing.len()) / piece.len();
        format!("{opening}{}{closing}", piece.repeat(pieces))
    };
    let nested = |shown: &str| {
        "{% set ns = namespace(one=1, other=1) %}{% for i in range(300) %}{% for i in range(300) %}\
         {% set ns.one = [ns.one] %}{% set ns.other = [ns.other] %}{% endfor %}{% endfor %}"
            .to_owned()
            + shown
    };
    for source in [
        longest("{{ ", "1 }}", "-"),
        longest("{{ ", "1 }}", "not "),
        longest("{{ 1", " }}", "+1"),
        longest("{{ 1", " }}", "**1"),
        longest("{{ messages", " is defined }}", "[0]"),
        longest("{{ 1", " }}", "|e"),
        longest("{{ 1", " }}", " if 0 else 1"),
        longest("{% if 0 %}", "{% endif %}", "{% elif 0 %}"),
        nested("{{ ns.one }}"),
        nested("{{ ns.one | tojson }}"),
        nested("{{ ns.one == ns.other }}"),
    ] {
        let _ = render(&source);
    }
    // What it may not see is not there.
    for source in ["{{ ''.__class__ }}", "{{ messages.__init__ }}", "{{ self }}{{ config }}"] {
        assert!(render(source).is_ok_and(|text| !text.contains("class")), "{source}");
    }
}

#[test]
fn the_date_is_todays() {
    let years = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs_f64() / 31_556_952.0;
    let year: f64 = render("{{ strftime_now('%Y') }}").unwrap().parse().unwrap();
    // A new year may begin between the two, and begins at other times elsewhere.
    assert!((year - (1970.0 + years.floor())).abs() <= 1.0, "{year}");
    let date = render("{{ strftime_now('%d %b %Y') }}").unwrap();
    assert_eq!(date.split(' ').map(str::len).collect::<Vec<_>>(), [2, 3, 4], "{date}");
}

#[test]
fn tags_for_training_take_no_part() {
    for (source, expected) in [
        ("{% generation %}a{% endgeneration %}b", "ab"),
        ("x \n{%- generation -%} \n a \n {%- endgeneration -%} \n b", "xab"),
        ("{%generation%}a{%endgeneration%}", "a"),
        ("{{ '{% generation' }}", "{% generation"),
        ("{% set generation = 1 %}{{ generation }}", "1"),
    ] {
        assert_eq!(render(source).unwrap(), expected, "{source}");
    }
}

#[test]
fn a_file_brings_its_template_and_the_texts_of_its_tokens() {
    let strings = |texts: &[&str]| texts.iter().map(|text| text.to_string()).collect::<Vec<_>>();
    let mut metadata = Metadata::new("model.gguf");
    assert!(ChatTemplate::from_gguf(&metadata).unwrap().is_none());
    metadata.insert(KEY, "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}{{ pad_token }}");
    metadata.insert("tokenizer.ggml.model", "llama");
    metadata.insert("tokenizer.ggml.tokens", strings(&["<unk>", "<s>", "</s>"]));
    let template = ChatTemplate::from_gguf(&metadata).unwrap().unwrap();
    assert_eq!(template.render(&[Message::new("user", "Hi")], Reply::Begun).unwrap(), "<s>Hi</s>");
    assert!(template.source().starts_with("{{ bos_token }}"));
    assert!(format!("{template:?}").contains("model.gguf"));

    metadata.insert(KEY, 3u32);
    let message = ChatTemplate::from_gguf(&metadata).unwrap_err().to_string();
    assert!(
        message.contains("`tokenizer.chat_template` is of type u32; a string would be right"),
        "{message}"
    );
}

#[test]
fn a_long_conversation_is_within_the_limits() {
    let messages: Vec<_> =
        (0..4_000).map(|at| Message::new(["user", "assistant"][at % 2], "naïve ".repeat(100))).collect();
    for (name, source) in TEMPLATES {
        let template = ChatTemplate::new(name, source).unwrap().with("eos_token", "</s>");
        let text = template.render(&messages, Reply::Begun).unwrap();
        assert!(text.len() > 4_000 * 600, "{name}");
    }
}

proptest! {
    #[test]
    fn a_damaged_template_never_panics(
        name in prop::sample::select(TEMPLATES.map(|(name, _)| name).to_vec()),
        damage in prop::collection::vec((any::<prop::sample::Index>(), "[a-z{}%'\" (),.|=+*0-9\\[\\]-]"), 1..4),
    ) {
        let mut source: Vec<String> = named(name).chars().map(String::from).collect();
        for (at, with) in damage {
            let at = at.index(source.len());
            source[at] = with;
        }
        let _ = render(&source.concat());
    }
}

#[test]
fn messages_and_variables_may_be_json_whose_keys_keep_their_order() {
    let source =
        "{{ name }}{% for m in messages %}{{ m | tojson }}{{ m.n + 1 }}{% endfor %}{{ messages | length }}";
    let template = ChatTemplate::new("chat", source).unwrap();
    let named = template.clone().with_json(r#"{"name": "a", "messages": []}"#).unwrap();
    let messages = r#"[{"role": "user", "b": [true, null], "a": "é", "n": 1}]"#;
    let expected = r#"a{"role": "user", "b": [true, null], "a": "é", "n": 1}21"#;
    assert_eq!(named.render_json(messages, Reply::NotBegun).unwrap(), expected);

    let refused = |result: Result<String>| result.unwrap_err().to_string();
    assert_eq!(
        refused(named.render_json("{}", Reply::Begun)),
        "messages: they are a map; a JSON list would be right"
    );
    assert!(refused(named.render_json("[", Reply::Begun)).contains("messages: they are not JSON"));
    let variables = template.with_json("[1]").unwrap_err().to_string();
    assert_eq!(variables, "variables: they are a sequence; a JSON object would be right");
}
