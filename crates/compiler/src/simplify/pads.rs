pub(super) const RULES: &[super::Rule] = &[];
