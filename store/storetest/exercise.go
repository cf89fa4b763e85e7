package storetest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/store"
)

// A Place is a file or a Memory with one store, which a test can open several times.
type Place struct {
	// Open opens the store with a new epoch. The first call of Open creates the store.
	Open func() (*store.DB, error)
	// Restore returns a new place with the store that snapshot contains.
	Restore func(t *testing.T, snapshot []byte) Place
}

// Exercise tests that the stores of a backend fulfill all guarantees of a store. The function fresh must return a
// new place at each call. Every backend must pass Exercise.
func Exercise(t *testing.T, fresh func(t *testing.T) Place) {
	t.Helper()
	for _, c := range []struct {
		claim string
		test  func(trial)
	}{
		{"WhatIsCommittedSurvivesReopening", trial.survives},
		{"KeysComeInOrder", trial.ordered},
		{"RangesBeginAndEndWhereAsked", trial.bounded},
		{"ATransactionReadsItsOwnWrites", trial.ownWrites},
		{"ARangeSeesWhatItsLoopWrites", trial.writeAhead},
		{"AnEmptyValueIsNotAbsent", trial.empty},
		{"ValuesAreCopiedWhenWritten", trial.copied},
		{"KeysOfARangeMayBeKept", trial.kept},
		{"AnErrorTakesItsTransactionBackAlone", trial.rolledBack},
		{"APanicIsAnErrorOfItsTransactionAlone", trial.panicked},
		{"AViewIsNotChangedByLaterCommits", trial.isolated},
		{"AViewRefusesWrites", trial.readOnly},
		{"AnOldEpochCannotWrite", trial.fenced},
		{"ATransactionAtTheLimitFitsAndOneBeyondDoesNot", trial.limited},
		{"OnCommitRunsOnceBeforeUpdateReturns", trial.onCommit},
		{"ASnapshotIsAStore", trial.snapshot},
		{"TimeStandsStillInATransaction", trial.clock},
		{"AClosedStoreSaysSo", trial.closed},
	} {
		t.Run(c.claim, func(t *testing.T) {
			t.Parallel()
			c.test(trial{t, fresh(t)})
		})
	}
}

// trial is the test of one guarantee, in a place of its own.
type trial struct {
	*testing.T
	Place
}

// open opens the store, and checks and closes it when the test ends.
func (t trial) open() *store.DB {
	t.Helper()
	db, err := t.Open()
	if err != nil {
		t.Fatal(err)
	}
	return checked(t, db)
}

func name(s string) store.Key { return store.At(store.Modules).Str(s) }

// write commits pairs, which are names followed by their values; the value "-" deletes the name.
func (t trial) write(db *store.DB, pairs ...string) {
	t.Helper()
	if err := db.Update(func(tx *store.Tx) error {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i+1] == "-" {
				tx.Delete(name(pairs[i]))
			} else {
				tx.Put(name(pairs[i]), []byte(pairs[i+1]))
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// list returns the names in tx with their values, as "name=value".
func list(tx *store.Tx) []string {
	var out []string
	for k, v := range tx.Range(store.At(store.Modules)) {
		p, _ := k.Parts()
		out = append(out, p.Str()+"="+string(v))
	}
	return out
}

// holds checks that db contains exactly the pairs in want, each as "name=value".
func (t trial) holds(db *store.DB, want ...string) {
	t.Helper()
	if err := db.View(func(tx *store.Tx) error {
		if diff := cmp.Diff(want, list(tx)); diff != "" {
			t.Errorf("the store holds (-want +got):\n%s", diff)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}
