package store

import "fmt"

// JournalKey returns the key of the outcome that task id is carrying out.
func JournalKey(id ID) Key { return At(Journal).Uint(id.Epoch).Uint(id.N) }

// noteKey returns the key of what was noted while task id carries out its outcome.
func noteKey(id ID) Key { return At(Notes).Uint(id.Epoch).Uint(id.N) }

// SaveNote keeps how far the step of task id has come with its effects, in place
// of what was noted before, for as long as the task has a journal. It fails where
// it has none.
func SaveNote[T any](tx *Tx, id ID, note T) error {
	if tx.Get(JournalKey(id)) == nil {
		return fmt.Errorf("task %s has no journal that something could be noted of", id)
	}
	return Save(tx, noteKey(id), note)
}

// LoadNote reads what SaveNote has kept for task id, and reports whether there is
// anything.
func LoadNote[T any](tx *Tx, id ID) (T, bool, error) { return Load[T](tx, noteKey(id)) }

// DropJournal takes away what task id is carrying out and what was noted of it.
func DropJournal(tx *Tx, id ID) {
	tx.Delete(JournalKey(id))
	if k := noteKey(id); tx.Get(k) != nil {
		tx.Delete(k)
	}
}
