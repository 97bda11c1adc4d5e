//! Ranked retrieval by BM25 over a generated corpus.

use super::{Answer, query_numbers};
use crate::rng::Rng;
use bm25::{SearchEngine, SearchEngineBuilder, Tokenizer};

/// Words of the language.
const VOCABULARY: u64 = 30_000;
/// Words of a document: an abstract.
const DOCUMENT: u64 = 200;
/// Words of a query.
const QUERY: u64 = 12;

/// Words are what spaces separate.
#[derive(Clone, Debug, Default)]
struct Spaces;

impl Tokenizer for Spaces {
    fn tokenize(&self, text: &str) -> Vec<String> {
        text.split_ascii_whitespace().map(str::to_owned).collect()
    }
}

/// Documents with their index.
pub struct Corpus(SearchEngine<u32, u32, Spaces>);

/// Words as frequent as Zipf's law says: the n-th comes with a probability of about 1/n.
fn words(rng: &mut Rng, count: u64) -> String {
    let mut out = String::new();
    for _ in 0..count {
        let rank = (VOCABULARY as f64).powf(rng.unit()) as u64;
        out.push_str(&format!("w{rank} "));
    }
    out
}

impl Corpus {
    pub fn new(documents: usize, seed: u64) -> Self {
        let mut rng = Rng::for_part(seed, "bm25");
        let texts: Vec<String> = (0..documents)
            .map(|_| {
                let length = DOCUMENT / 2 + rng.next_u64() % DOCUMENT;
                words(&mut rng, length)
            })
            .collect();
        Corpus(SearchEngineBuilder::<u32, u32, Spaces>::with_tokenizer_and_corpus(Spaces, texts).build())
    }
}

impl Answer for Corpus {
    /// How many documents were found among the ten best, and the best one's score.
    fn answer(&self, query: u64) -> (u64, f64) {
        let text = words(&mut query_numbers(query), QUERY);
        let found = self.0.search(&text, 10);
        (found.len() as u64, found.first().map_or(0.0, |best| f64::from(best.score)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_found() {
        let texts = ["a b c", "a a d", "e f g"].map(String::from);
        let corpus =
            SearchEngineBuilder::<u32, u32, Spaces>::with_tokenizer_and_corpus(Spaces, texts).build();
        let found = corpus.search("d", 10);
        assert_eq!(found.iter().map(|r| r.document.contents.as_str()).collect::<Vec<_>>(), ["a a d"]);
        let generated = Corpus::new(100, 1);
        assert!((0..20).all(|q| generated.answer(q).0 > 0), "a frequent word is in some document");
    }
}
