package store

import (
	"fmt"
	"testing"
)

func TestATransactionThatStopsWhenItsBudgetIsSpentFitsInOneCommit(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"many keys": 10, "large values": 100 << 10} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, err := OpenMemory(new(Memory), Options{})
			if err != nil {
				t.Fatal(err)
			}
			limits, value, n := db.commits.limits, make([]byte, size), 0
			if err := db.Update(func(tx *Tx) error {
				for ; !tx.Spent(); n++ {
					tx.Put(At(Payloads).Uint(uint64(n)), value)
				}
				if w := tx.Written(); w.Ops != n || w.Ops > limits.Ops/2+1 || w.Bytes > limits.Bytes/2+size+9 {
					return fmt.Errorf("%d writes are counted as %+v, the limits are %+v", n, w, limits)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if n < 10 {
				t.Errorf("the budget was spent after %d writes of %d bytes", n, size)
			}
		})
	}
}
