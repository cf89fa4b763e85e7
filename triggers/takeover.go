package triggers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"addon-operator/internal/lease"
	"addon-operator/store"
)

// TakeOver prepares the store for this process, which has become the only operator of its
// namespace. previous describes the last holder of the Lease. The pending tasks of the store are
// outdated if another operator may have worked since the last epoch of the store, or if the store
// is a copy. If the tasks are outdated, TakeOver drops them, and dropped is the reason; otherwise
// dropped is empty. The argument written is the time of the last write before this process opened
// the store.
func TakeOver(ctx context.Context, db *store.DB, previous lease.Previous, written time.Time) (dropped string, err error) {
	t := takeover{db, previous, written}
	var lost *store.LostSpan
	if err := db.View(func(tx *store.Tx) (err error) {
		lost, err = t.lostSpan(tx)
		return err
	}); err != nil {
		return "", err
	}
	if lost != nil {
		if err := db.DropWork(ctx, *lost); err != nil {
			return "", err
		}
		dropped = lost.String()
	}
	return dropped, db.UpdateWithRoom(ctx, func(tx *store.Tx) error {
		tx.Delete(store.CopyKey())
		return store.Save(tx, store.TenureKey(), store.Tenure{Epoch: tx.Epoch(), Began: tx.Now()})
	})
}

// A takeover has the arguments of one call of TakeOver.
type takeover struct {
	db       *store.DB
	previous lease.Previous
	written  time.Time
}

// lostSpan returns the span of time whose changes the store lacks, because another operator has
// worked since the last epoch of the store, or because the store is a copy. It returns nil if there
// is no such span.
func (t *takeover) lostSpan(tx *store.Tx) (*store.LostSpan, error) {
	worked, ended, err := lastWorked(tx)
	if err != nil || worked == 0 {
		return nil, err // the store was never used
	}
	lost, err := t.copied(tx)
	if err != nil {
		return nil, err
	}
	how, other := "", true
	switch {
	case t.previous.Foreign:
		how = "another program held the Lease"
	case t.previous.Store == "":
		other = false
	case t.previous.Store != t.db.ID():
		how = fmt.Sprintf("an operator with another store (%s, epoch %d) held the Lease", t.previous.Store, t.previous.Epoch)
	case t.previous.Epoch > worked:
		how, other = fmt.Sprintf("the store ends with epoch %d, but an operator worked with it until epoch %d", worked, t.previous.Epoch), false
	case t.previous.Ended == worked && !ended:
		how, other = fmt.Sprintf("the store is an older copy: it lacks the end of epoch %d, which an operator has recorded in it", worked), false
	default:
		other = false
	}
	switch {
	case lost == nil && how != "":
		lost = &store.LostSpan{How: how, From: t.written, To: tx.Now()}
	case lost != nil && (lost.To.IsZero() || other):
		lost.To = tx.Now()
	}
	return lost, nil
}

// lastWorked returns the last epoch in which an operator worked with the store; 0 if there is none.
// Two records contain the epoch, so that the loss of one of them does no harm. The result ended is
// false if the epoch worked began to process tasks, and the store has no record of its clean exit.
func lastWorked(tx *store.Tx) (worked uint64, ended bool, err error) {
	tenure, _, err := store.Load[store.Tenure](tx, store.TenureKey())
	if err != nil {
		return 0, false, err
	}
	ends, _, err := store.Load[store.Ends](tx, store.EndsKey())
	worked = max(tenure.Epoch, ends.Begun)
	return worked, ends.Begun != worked || ends.Ended == worked, err
}

// copied returns the span of time whose changes the store lacks because it is a copy; nil if the
// store is not a copy. The end of the span is zero if the end is unknown. An unreadable mark also
// means that the store is a copy.
func (t *takeover) copied(tx *store.Tx) (*store.LostSpan, error) {
	mark, marked, err := store.Load[store.Copy](tx, store.CopyKey())
	if damaged := (*store.RecordError)(nil); errors.As(err, &damaged) {
		return &store.LostSpan{How: "the store is a copy of one that was in use", From: t.written}, nil
	}
	if err != nil || !marked {
		return nil, err
	}
	return mark.Lost(), nil
}
