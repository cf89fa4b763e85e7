package workflow_test

import (
	"slices"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"addon-operator/store"
)

// damagedTables are the tables of the records that the action "damage" damages. The engine can continue without each
// of these records.
var damagedTables = []store.Table{
	store.Queues, store.Deferred, store.Held, store.Payloads, store.Journal, store.Events, store.Backlogs, store.Buckets,
	store.Lanes, store.Quarantine, store.Runs, store.Interruptions,
}

// damageOne damages a record of one of the damagedTables. The number in the parameter named which selects the table. If
// that table has no records, the next table with records is used. damageOne does not damage the header of a running
// task: without the header, the engine does not know that the task is running, and starts the next task of its queue at
// the same time.
func (c *chaos) damageOne(which int) {
	var keys []store.Key
	c.view(func(tx *store.Tx) error {
		for i := range damagedTables {
			for k := range tx.Range(store.At(damagedTables[(which+i)%len(damagedTables)])) {
				if !isRunning(tx, queuedAt(tx, k)) {
					keys = append(keys, slices.Clone(k))
				}
			}
			if len(keys) > 0 {
				break
			}
		}
		return nil
	})
	if len(keys) > 0 {
		k := keys[(which*7+len(keys)/2)%len(keys)]
		c.view(func(tx *store.Tx) error {
			c.overlap = c.overlap || hasPendingItems(queuedAt(tx, k))
			return nil
		})
		c.damage(k)
	}
	synctest.Wait()
}

// queuedAt returns the header of the task with the key k; nil if k is not the key of a readable header in a queue.
func queuedAt(tx *store.Tx, k store.Key) *store.Task {
	if k.Table() != store.Queues {
		return nil
	}
	t, _, err := store.LoadAt(tx, k)
	if err != nil {
		return nil
	}
	return t
}

// isRunning reports whether t, which can be nil, is running.
func isRunning(tx *store.Tx, t *store.Task) bool {
	return t != nil && t.Claim != nil && t.Claim.Epoch == tx.Epoch()
}

// hasPendingItems reports whether t, which can be nil, is a fan-out task that waits for its items.
func hasPendingItems(t *store.Task) bool { return t != nil && t.FanOut != nil && t.FanOut.Open > 0 }

// TestWhateverHappensToRecordsAllOtherWorkEnds damages records in random histories. The work of a damaged record can be
// lost. All other work must end, and no event must be delivered twice, or after a newer event of its object.
func TestWhateverHappensToRecordsAllOtherWorkEnds(t *testing.T) {
	actions := append(slices.Clone(chaosActions), "damage", "damage", "damage")
	draw := func(rt *rapid.T) chaosStory { return drawStory(rt, actions) }
	chaosLaw(t, draw, func(o *oracle, story chaosStory) {
		c := newChaos(o)
		c.unsound, c.fragile = true, true
		c.run(story)
		c.removeDamaged()
		c.expectNothingLeft("damaged", "problems")
	})
}

// removeDamaged removes the damaged records that the engine has not read, because it did not need them. Then the store
// must be consistent.
func (c *chaos) removeDamaged() {
	if err := c.db.Update(func(tx *store.Tx) error {
		for k, v := range tx.Range(nil) {
			if string(v) == damagedRecord {
				tx.Delete(k)
			}
		}
		return nil
	}); err != nil {
		c.t.Error(err)
	}
	c.unsound = false
	if err := c.db.Check(); err != nil {
		c.t.Error(err)
	}
}
