//! The answers to questions while they are given: numbered choices, several where that is wanted, and own words.

use std::collections::BTreeSet;

use toolgate_client::Decision;
use toolgate_contract::{Question, QuestionRequest};

use super::field::Field;

/// The answer to one question.
#[derive(Debug, Default, PartialEq, Eq)]
struct Answer {
    chosen: BTreeSet<usize>,
    own: String,
}

/// Where the person is among the questions.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Answers {
    answers: Vec<Answer>,
    /// The question in hand.
    pub(super) question: usize,
    /// The option that Space chooses.
    pub(super) option: usize,
    /// The own answer while it is written.
    pub(super) writing: Option<Field>,
}

impl Answers {
    pub(super) fn of(request: &QuestionRequest) -> Self {
        let mut answers = Self {
            answers: request.questions.iter().map(|_| Answer::default()).collect(),
            ..Self::default()
        };
        answers.begin(request, 0);
        answers
    }

    /// Turns to a question.
    fn begin(&mut self, request: &QuestionRequest, number: usize) {
        self.question = number;
        self.option = 0;
        // Without choices there is nothing to do but to write.
        let only_words = request.questions.get(number).is_some_and(|one| one.options.is_empty());
        self.writing = None;
        if only_words {
            self.write();
        }
    }

    /// Begins to write an own answer, or goes on with it.
    pub(super) fn write(&mut self) {
        let mut field = Field::line();
        field.insert(self.own(self.question));
        self.writing = Some(field);
    }

    pub(super) fn own(&self, question: usize) -> &str {
        self.answers.get(question).map_or("", |answer| answer.own.as_str())
    }

    pub(super) fn is_chosen(&self, question: usize, option: usize) -> bool {
        let answer = self.answers.get(question);
        answer.is_some_and(|answer| answer.chosen.contains(&option))
    }

    pub(super) fn step(&mut self, question: &Question, down: bool) {
        let last = question.options.len().saturating_sub(1);
        self.option = if down {
            (self.option + 1).min(last)
        } else {
            self.option.saturating_sub(1)
        };
    }

    /// Chooses an option, or takes the choice back. Where one answer is wanted, it takes the place of another.
    pub(super) fn toggle(&mut self, question: &Question, option: usize) {
        let Some(answer) = self.answers.get_mut(self.question) else {
            return;
        };
        if option >= question.options.len() {
            return;
        }
        self.option = option;
        if answer.chosen.remove(&option) {
            return;
        }
        if !question.multiple {
            answer.chosen.clear();
            answer.own.clear();
        }
        answer.chosen.insert(option);
    }

    /// Takes the own answer that was written.
    pub(super) fn written(&mut self, question: &Question) {
        let Some(field) = self.writing.take() else { return };
        if let Some(answer) = self.answers.get_mut(self.question) {
            field.text().trim().clone_into(&mut answer.own);
            if !question.multiple && !answer.own.is_empty() {
                answer.chosen.clear();
            }
        }
    }

    /// Says whether the question in hand has an answer.
    pub(super) fn is_answered(&self) -> bool {
        let answer = self.answers.get(self.question);
        answer.is_some_and(|answer| !answer.chosen.is_empty() || !answer.own.is_empty())
    }

    /// Takes the answer to the question in hand away.
    pub(super) fn clear(&mut self) {
        if let Some(answer) = self.answers.get_mut(self.question) {
            *answer = Answer::default();
        }
    }

    /// Turns to the next question; after the last one returns what was answered.
    pub(super) fn next(&mut self, request: &QuestionRequest) -> Option<Decision> {
        if self.question + 1 < request.questions.len() {
            self.begin(request, self.question + 1);
            return None;
        }
        let answers = self.answers.iter().zip(&request.questions);
        let answers = answers.map(|(answer, question)| {
            let labels = answer.chosen.iter().filter_map(|&option| question.options.get(option));
            let mut values: Vec<String> = labels.map(|option| option.label.clone()).collect();
            values.extend((!answer.own.is_empty()).then(|| answer.own.clone()));
            values
        });
        Some(Decision::Answer(answers.collect()))
    }

    /// Leaves what was begun last: the writing, or the question for the one before.
    pub(super) fn leave(&mut self, request: &QuestionRequest) {
        if self.writing.take().is_none() && self.question > 0 {
            self.begin(request, self.question - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use toolgate_contract::QuestionOption;

    use super::*;

    fn question(labels: &[&str], multiple: bool) -> Question {
        let option = |label: &&str| QuestionOption {
            label: (*label).to_owned(),
            description: String::new(),
        };
        Question {
            options: labels.iter().map(option).collect(),
            multiple,
            ..Question::default()
        }
    }

    #[test]
    fn one_several_and_own_words() {
        let request = QuestionRequest {
            questions: vec![
                question(&["a", "b"], false),
                question(&["c", "d"], true),
                question(&[], false),
            ],
        };
        let mut answers = Answers::of(&request);
        answers.toggle(&request.questions[0], 0);
        answers.toggle(&request.questions[0], 1);
        answers.toggle(&request.questions[0], 7);
        assert!(answers.next(&request).is_none() && !answers.is_answered());
        answers.step(&request.questions[1], true);
        answers.toggle(&request.questions[1], 1);
        answers.toggle(&request.questions[1], 0);
        answers.write();
        answers.writing.as_mut().unwrap().insert(" e ");
        answers.written(&request.questions[1]);
        assert!(answers.next(&request).is_none());
        assert!(answers.writing.is_some(), "there is nothing to choose");
        answers.leave(&request);
        answers.leave(&request);
        assert_eq!((answers.question, answers.own(1)), (1, "e"));
        answers.next(&request);
        answers.writing.as_mut().unwrap().insert("f");
        answers.written(&request.questions[2]);
        let values = |list: &[&str]| list.iter().map(|&one| one.to_owned()).collect::<Vec<_>>();
        let expected = vec![values(&["b"]), values(&["c", "d", "e"]), values(&["f"])];
        assert_eq!(answers.next(&request), Some(Decision::Answer(expected)));
        answers.clear();
        assert!(!answers.is_answered());
    }

    #[test]
    fn own_words_take_the_place_of_the_only_choice() {
        let request = QuestionRequest {
            questions: vec![question(&["a", "b"], false)],
        };
        let mut answers = Answers::of(&request);
        answers.toggle(&request.questions[0], 0);
        answers.write();
        answers.writing.as_mut().unwrap().insert("c");
        answers.written(&request.questions[0]);
        assert!(!answers.is_chosen(0, 0));
        answers.toggle(&request.questions[0], 1);
        assert_eq!((answers.own(0), answers.is_chosen(0, 1)), ("", true));
    }
}
