package store

import "fmt"

// JournalKey returns the key of the journal of the task id: the outcome whose effects the task executes.
func JournalKey(id ID) Key { return At(Journal).Uint(id.Epoch).Uint(id.N) }

// noteKey returns the key of the note of task id; see [SaveNote].
func noteKey(id ID) Key { return At(Notes).Uint(id.Epoch).Uint(id.N) }

// SaveNote stores note, in which the step of task id records the progress of its effects. For example, a note says
// which effects have been executed, or which object the next effect changes. SaveNote replaces an earlier note. The
// note is deleted with the journal of the task. If the task has no journal, SaveNote returns an error.
func SaveNote[T any](tx *Tx, id ID, note T) error {
	if tx.Get(JournalKey(id)) == nil {
		return fmt.Errorf("task %s has no journal, so its note cannot be stored", id)
	}
	return Save(tx, noteKey(id), note)
}

// LoadNote returns the note of task id, and whether there is one.
func LoadNote[T any](tx *Tx, id ID) (T, bool, error) { return Load[T](tx, noteKey(id)) }

// DropJournal deletes the journal and the note of task id.
func DropJournal(tx *Tx, id ID) {
	tx.Delete(JournalKey(id))
	if k := noteKey(id); tx.Get(k) != nil {
		tx.Delete(k)
	}
}
