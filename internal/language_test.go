package internal_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A retiredTerm describes words or phrases that must not be used in this project, and their replacement.
type retiredTerm struct {
	phrases string // all forms of the word or phrase, separated by commas
	except  string // longer phrases that are allowed although they contain a retired phrase, such as names in other projects
	reason  string // says which word to use instead
}

// retiredTerms must not occur in code, comments, documents, messages, tests and file contents. If a word also has an
// ordinary meaning, only phrases with the retired meaning are listed.
var retiredTerms = []retiredTerm{
	{phrases: "walk, walks, walked, walking", except: "walk dir, walk if, json walk, json start walk, walk d", reason: "all work that follows from one trigger is a run"},
	{phrases: "hasten, hastens, hastened", reason: "a deferred task that starts early is expedited"},
	{phrases: "excuse, excuses", reason: "an epoch that ends without a crash is a clean exit"},
	{phrases: "forgiven, forgive", reason: "an epoch that ends without a crash is a clean exit"},
	{phrases: "crew, crews", reason: "goroutines that share a queue are workers"},
	{phrases: "upkeep", reason: "periodic work on the store is maintenance"},
	{phrases: "looker, lookers", reason: "the state of watched objects is a snapshot"},
	{phrases: "crafts", reason: "packages below internal are internal packages"},
	{phrases: "opinion, opinions", reason: "a value that a hook sets for <module>Enabled is an enabled override"},
	{phrases: "a farewell, with farewell", reason: "a reader that leaves a watch unsubscribes"},
	{phrases: "keyring, keyrings", reason: "the part that renews certificates is the certificate rotator"},
	{phrases: "inbox, inboxes", reason: "changes that wait for a reader are in a buffer"},
	{phrases: "hub, hubs", except: "git hub", reason: "the object that runs all monitors is named watches"},
	{phrases: "sight, sights", reason: "the objects that a binding watches are its snapshot"},
	{phrases: "desk, desks", reason: "name the thing itself, such as a receiver"},
	{phrases: "book, books", reason: "all metrics of hooks at one moment are a snapshot"},
	{phrases: "sheets", reason: "the metrics of one hook are stored in shards"},
	{phrases: "in vain", reason: "state what timed out or failed"},
	{phrases: "anew", reason: "state what happens again, such as: reads it again, starts again"},
	{phrases: "set aside, sets aside", reason: "tasks are quarantined, damaged records are moved to a table, and files are renamed"},
	{phrases: "killer, killers", reason: "a task that crashes the operator is quarantined"},
	{phrases: "orphan, orphans", except: "json orphan, delete propagation orphan", reason: "a task whose result no longer counts is abandoned"},
	{phrases: "withheld", except: "json withheld", reason: "a deletion that a safety check prevents is blocked"},
	{phrases: "in doubt, a doubt, no doubt", reason: "name the safety check, or the unknown fact"},
	{phrases: "lenient", except: "json lenient", reason: "hooks and tasks whose failure is allowed have allowFailure"},
	{phrases: "spared", reason: "state what was kept or not deleted"},
	{phrases: "life, lives", except: "meta str life", reason: "one process of the operator is an epoch; other processes are processes"},
	{phrases: "shelf, shelves", reason: "name the thing itself: a table, a cache, a directory"},
	{phrases: "put off, puts off, putting off", except: "json put off", reason: "a task that starts later is deferred"},
	{phrases: "pace, paces, paced", reason: "the limit of the runs of a hook is a rate limit; a time between two actions is an interval or a delay"},
	{phrases: "heed, heeds, heeded", reason: "state what happens to the output of a hook: it is checked and applied"},
	{phrases: "deed, deeds", reason: "what a person or a test does is an action"},
	{phrases: "lookout, lookouts", reason: "an object that calls a function after changes of objects is a notifier"},
	{phrases: "keeper, keepers", reason: "a program that restarts the operator is a supervisor; an object that receives events in a test is a receiver"},
	{phrases: "arena, arenas", except: "heap arena", reason: "the objects of a test are its fixture or environment"},
	{phrases: "kit, kits", reason: "the objects of a test are its fixture or environment"},
	{phrases: "concerned", reason: "name the affected modules or bindings"},
	{phrases: "suspects", reason: "use a word for the unknown property, such as unconfirmed"},
	{phrases: "much is taken", reason: "name the limit, and that it is exceeded"},
}

// retiredElsewhere are the files that may contain retired terms: this file, and the file that maps the names of stored
// fields to the terms in use.
var retiredElsewhere = []string{"internal/language_test.go", "store/dump_names.go"}

// words is a regular expression that matches each word of a text. An identifier in camel case has several words.
var words = regexp.MustCompile(`\p{Lu}+\p{Ll}*|\p{Ll}+`)

// A position is one word of a file, in lower case, and its line number.
type position struct {
	word string
	line int
}

func TestRetiredTermsAreNotUsed(t *testing.T) {
	t.Parallel()
	files := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator)))
		if d.IsDir() {
			if base := d.Name(); path != ".." && (strings.HasPrefix(base, ".") && base != ".ci" || base == "bin" || base == "fuzz") {
				return filepath.SkipDir
			}
			return nil
		}
		if !isReadable(name) || slices.Contains(retiredElsewhere, name) {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		for _, found := range findRetired(string(content)) {
			t.Errorf("%s:%d: %q is retired: %s", name, found.line, found.phrase, found.term.reason)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 500 {
		t.Errorf("only %d files were read", files)
	}
}

func TestRetiredTermsAreFoundInEachSpelling(t *testing.T) {
	t.Parallel()
	found := []string{"the upkeep of it", "Upkeep", "runUpkeep()", "upkeepTime", "STORE_UPKEEP", "store-upkeep", `json:"upkeep"`, "HTTPUpkeep"}
	for _, text := range found {
		if len(findRetired(text)) != 1 {
			t.Errorf("%q is not found", text)
		}
	}
	if got := findRetired("upkeeping, the crew"); len(got) != 1 || got[0].phrase != "crew" {
		t.Errorf("parts of words are found: %v", got)
	}
	if got := findRetired("one\n// tasks are upkeep\n"); len(got) != 1 || got[0].line != 2 {
		t.Errorf("the line is wrong: %v", got)
	}
}

// isReadable reports whether a file has text that people read.
func isReadable(name string) bool {
	kinds := []string{".go", ".md", ".txtar", ".txt", ".sh", ".py", ".yaml", ".json", ".tpl", ".dot", ".mmd"}
	return slices.Contains(kinds, filepath.Ext(name)) || slices.Contains([]string{"Makefile", "Dockerfile"}, filepath.Base(name))
}

// A retiredUse is one place where a retired term is used.
type retiredUse struct {
	term   retiredTerm
	phrase string
	line   int
}

// findRetired returns the uses of retired terms in text. A phrase can continue on the next line.
func findRetired(text string) (uses []retiredUse) {
	var all []position
	number := 0
	for line := range strings.Lines(text) {
		number++
		for _, word := range words.FindAllString(line, -1) {
			for _, part := range splitAcronym(word) {
				all = append(all, position{strings.ToLower(part), number})
			}
		}
	}
	for i := range all {
		for _, use := range retiredByWord[all[i].word] {
			if hasPhrase(all, i, use.phrase) && !isException(all, i, use.term.except) {
				uses = append(uses, retiredUse{use.term, use.phrase, all[i].line})
			}
		}
	}
	return uses
}

// splitAcronym splits an acronym from the word that follows it, as in HTTPServer.
func splitAcronym(word string) []string {
	upper := strings.IndexFunc(word, func(r rune) bool { return strings.ToUpper(string(r)) != string(r) })
	if upper < 2 {
		return []string{word}
	}
	return []string{word[:upper-1], word[upper-1:]}
}

// retiredByWord maps the first word of each retired phrase to all retired phrases that begin with this word.
var retiredByWord = func() map[string][]retiredUse {
	out := map[string][]retiredUse{}
	for _, term := range retiredTerms {
		for phrase := range strings.SplitSeq(term.phrases, ", ") {
			first := strings.Fields(phrase)[0]
			out[first] = append(out[first], retiredUse{term: term, phrase: phrase})
		}
	}
	return out
}()

// hasPhrase reports whether phrase begins at the word all[i].
func hasPhrase(all []position, i int, phrase string) bool {
	for n, word := range strings.Fields(phrase) {
		if i+n >= len(all) || all[i+n].word != word {
			return false
		}
	}
	return true
}

// isException reports whether the word all[i] is part of one of the exceptions.
func isException(all []position, i int, exceptions string) bool {
	for phrase := range strings.SplitSeq(exceptions, ", ") {
		for n, word := range strings.Fields(phrase) {
			if word != all[i].word || i < n {
				continue
			}
			if hasPhrase(all, i-n, phrase) {
				return true
			}
		}
	}
	return false
}
