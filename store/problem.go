package store

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"time"

	"addon-operator/workflow/graph"
)

// A ProblemKind is a kind of problem.
type ProblemKind string

// Kinds of problems that are stored. A failing task is a problem too, but no Problem is stored for
// it.
const (
	NotExecutable    ProblemKind = "not executable"        // a hook file has no execute bit
	NewDirectory     ProblemKind = "new directory"         // a module directory is not used yet
	ChangedDirectory ProblemKind = "changed directory"     // the module has not run since its directory changed
	GoneDirectory    ProblemKind = "missing directory"     // an installed module has no directory
	BadDirectories   ProblemKind = "unreadable directory"  // a directory of modules cannot be read, or is perhaps not mounted
	UnknownKey       ProblemKind = "unknown key"           // a key of the ConfigMap belongs to no module
	BlockedDeletion  ProblemKind = "blocked deletion"      // the safety check blocked a deletion of releases, or a purge failed
	FailingFilter    ProblemKind = "failing filter"        // a jqFilter fails on an object
	DamagedRecord    ProblemKind = "damaged record"        // a record could not be read and was moved to the table of damaged records
	UnusableAddon    ProblemKind = "unusable addon"        // an addon cannot be used as a module
	OrphanedModule   ProblemKind = "orphaned module"       // the addon of a module is not registered any more
	SharedObject     ProblemKind = "shared object"         // the releases of two modules have the same object
	StaleWebhook     ProblemKind = "webhook configuration" // webhooks reject requests while no operator runs
)

// A Problem is a current problem that no failing task reports. The record of a problem is deleted
// when the problem is solved.
type Problem struct {
	Kind    ProblemKind   `json:"kind"`
	Subject graph.Subject `json:"subject,omitzero"`
	// Object names the thing that has the problem, for example a file, a directory, a ConfigMap key
	// or a Kubernetes object.
	Object string `json:"object,omitempty"`
	// Error says in one sentence what is wrong.
	Error string `json:"error"`
	// More is the number of other objects or modules with the same problem that Error does not name.
	More int `json:"more,omitempty"`
	// Fix says what to edit or to run. Command, if set, is a command of this program that solves
	// the problem. Effect names a side effect of Command that is hard to undo.
	Fix     string    `json:"fix,omitempty"`
	Command []string  `json:"command,omitempty"`
	Effect  string    `json:"effect,omitempty"`
	Since   time.Time `json:"since"`
}

// mostProblems is the maximum number of problems of one kind that ReplaceProblems stores, and
// mostProblemBytes is the maximum total length of their texts in bytes.
const (
	mostProblems     = 500
	mostProblemBytes = 1 << 20
)

// Key returns the key of p. There is one record for each kind, subject and object.
func (p Problem) Key() Key {
	return At(Problems).Str(string(p.Kind)).Str(p.Subject.Module).Str(p.Subject.Hook).Str(p.Subject.Binding).Str(p.Object).Opt(p.Subject.Configuration)
}

// SaveProblem writes p with the time of tx as Since, and reports whether the record changed. If the
// problem is stored already, SaveProblem keeps its Since. SaveProblem replaces an unreadable record
// of the problem.
func SaveProblem(tx *Tx, p Problem) (changed bool, err error) {
	old, ok, err := Load[Problem](tx, p.Key())
	if unreadable := (*RecordError)(nil); err != nil && !errors.As(err, &unreadable) {
		return false, err
	}
	if p.Since = tx.Now(); ok {
		p.Since = old.Since
	}
	text, err := json.Marshal(p)
	if err != nil || bytes.Equal(text, tx.Get(p.Key())) {
		return false, err
	}
	tx.Put(p.Key(), text)
	return true, nil
}

// ReplaceProblems replaces the stored problems of the given kind with the argument problems.
// ReplaceProblems reports whether any record changed. If the problems exceed a limit,
// ReplaceProblems stores only those at the beginning of the slice.
func ReplaceProblems(tx *Tx, kind ProblemKind, problems []Problem) (changed bool, err error) {
	stays := map[string]bool{}
	size := 0
	for _, p := range problems[:min(len(problems), mostProblems)] {
		p.Kind = kind
		if size += len(p.Error) + len(p.Fix) + 2*len(p.Object); size > mostProblemBytes {
			break
		}
		stays[string(p.Key())] = true
		news, err := SaveProblem(tx, p)
		if err != nil {
			return false, err
		}
		changed = changed || news
	}
	for k := range tx.Range(At(Problems).Str(string(kind))) {
		if !stays[string(k)] {
			tx.Delete(k)
			changed = true
		}
	}
	return changed, nil
}

// DeleteProblems deletes the stored problems of a kind and a module.
func DeleteProblems(tx *Tx, kind ProblemKind, module string) {
	for k := range tx.Range(At(Problems).Str(string(kind)).Str(module)) {
		tx.Delete(k)
	}
}

// AllProblems returns the stored problems in the order of [Problem.Compare].
func AllProblems(tx *Tx) (problems []Problem, err error) {
	for p, err := range EachProblem(tx) {
		if err != nil {
			return nil, err
		}
		problems = append(problems, p)
	}
	slices.SortStableFunc(problems, Problem.Compare)
	return problems, nil
}

// EachProblem yields the stored problems in the order of their keys.
func EachProblem(tx *Tx) iter.Seq2[Problem, error] { return records[Problem](tx, At(Problems)) }

// Compare orders problems by kind, subject and object.
func (p Problem) Compare(other Problem) int {
	a, b := p.Subject, other.Subject
	return cmp.Or(
		cmp.Compare(p.Kind, other.Kind), cmp.Compare(a.Module, b.Module), cmp.Compare(a.Hook, b.Hook),
		cmp.Compare(a.Binding, b.Binding), cmp.Compare(a.Configuration, b.Configuration), cmp.Compare(p.Object, other.Object))
}
