package registry

import (
	"context"
	"errors"

	"addon-operator/store"
)

// drop marks a round as dropped. Later, [collect] and [Sweep] delete the references of dropped rounds to contents.
func drop(tx *store.Tx, round store.ID) error {
	if round.IsZero() {
		return nil
	}
	h := store.RoundHolder(round)
	tx.Delete(store.HolderKey(h, false))
	return store.Save(tx, store.HolderKey(h, true), round)
}

// collect deletes the references of dropped rounds until the transaction has used half of its budget. [Sweep] deletes
// the remaining references.
func collect(tx *store.Tx) error {
	for k := range tx.Range(store.DroppedHolders()) {
		round, _, err := store.Load[store.ID](tx, k)
		if err != nil {
			return err
		}
		more, err := releaseRound(tx, round)
		if err != nil || more {
			return err
		}
		tx.Delete(k)
	}
	return nil
}

// Sweep releases the references of all dropped rounds, in transactions of bounded size.
func Sweep(ctx context.Context, db *store.DB) error {
	for more := true; more; {
		if err := db.UpdateWithRoom(ctx, func(tx *store.Tx) error {
			if err := collect(tx); err != nil {
				return err
			}
			more = false
			for range tx.Range(store.DroppedHolders()) {
				more = true
				break
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// halfSpent reports whether the transaction has used half of its budget.
func halfSpent(tx *store.Tx) bool {
	budget, written := tx.Budget(), tx.Written()
	return 2*written.Ops >= budget.Ops || 2*written.Bytes >= budget.Bytes
}

// releaseRound releases the references of a round and deletes its results. It reports whether references or results
// remain, because half of the budget is used.
func releaseRound(tx *store.Tx, round store.ID) (more bool, err error) {
	for k := range tx.Range(store.HoldsOf(store.RoundHolder(round))) {
		if halfSpent(tx) {
			return true, nil
		}
		content, err := heldContent(k)
		if err != nil {
			return false, err
		}
		if more, err := release(tx, k, content); err != nil || more {
			return more, err
		}
	}
	for k := range tx.Range(store.ResultsOf(round)) {
		if halfSpent(tx) {
			return true, nil
		}
		tx.Delete(k)
	}
	return false, nil
}

// heldContent returns the name of the content in k, which is the key of a reference.
func heldContent(k store.Key) (string, error) {
	p, err := k.Parts()
	_, content := p.Str(), p.Str()
	return content, errors.Join(err, p.Err())
}

// release deletes a reference to a content. The argument hold is the key of the reference. With the last reference,
// release also deletes the content, and its chart if no other content has this chart. If the budget of the
// transaction is too small, the reference stays, and release returns true.
func release(tx *store.Tx, hold store.Key, content string) (more bool, err error) {
	c, _, err := store.Load[store.Content](tx, store.ContentKey(content))
	if err != nil {
		return false, err
	}
	if c.Refs > 1 {
		c.Refs--
		tx.Delete(hold)
		return false, store.Save(tx, store.ContentKey(content), c)
	}
	if more, err := deleteChart(tx, c.Chart); err != nil || more {
		c.Complete = false
		return more, errors.Join(err, store.Save(tx, store.ContentKey(content), c))
	}
	if tx.Erase(store.ContentChunks(content)) {
		c.Complete, c.Chart = false, ""
		return true, store.Save(tx, store.ContentKey(content), c)
	}
	tx.Delete(store.ContentKey(content))
	tx.Delete(hold)
	return false, nil
}

// deleteChart decrements the reference count of a chart. At zero, it deletes the chart. If the budget of the
// transaction is too small for this, some chunks of the chart remain, and deleteChart returns true.
func deleteChart(tx *store.Tx, digest string) (more bool, err error) {
	if digest == "" {
		return false, nil
	}
	chart, _, err := store.Load[store.Chart](tx, store.ChartKey(digest))
	if err != nil {
		return false, err
	}
	if chart.Refs > 1 {
		chart.Refs--
		return false, store.Save(tx, store.ChartKey(digest), chart)
	}
	if tx.Erase(store.ChartChunks(digest)) {
		chart.Complete = false
		return true, store.Save(tx, store.ChartKey(digest), chart)
	}
	tx.Delete(store.ChartKey(digest))
	return false, nil
}
