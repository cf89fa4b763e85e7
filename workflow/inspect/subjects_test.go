package inspect

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/store"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect/inspecttest"
)

// TestTheFirstTaskAboutASubjectIsFoundInEachQueue compares the results of firstAbout with a search of all tasks. The
// test also compares the results for scans that have counted only the first task of each queue.
func TestTheFirstTaskAboutASubjectIsFoundInEachQueue(t *testing.T) {
	t.Parallel()
	db, err := store.OpenMemory(new(store.Memory), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := inspecttest.Fill(db, inspecttest.Size{Modules: 20, Runs: 10, Attempts: 200, Events: 2000}); err != nil {
		t.Fatal(err)
	}
	if err := db.View(func(tx *store.Tx) error {
		all, err := scanQueues(tx, false)
		if err != nil {
			return err
		}
		found := 0
		for i := range 20 {
			module := inspecttest.Module(i)
			wanted := func(s graph.Subject) bool { return s.Module == module }
			var want []store.ID
			for _, name := range all.names {
				for task, err := range store.Tasks(tx, name) {
					if err != nil {
						return err
					}
					if wanted(task.Subject) {
						want = append(want, task.ID)
						break
					}
				}
			}
			found += len(want)
			first, err := scanQueues(tx, false)
			if err != nil {
				return err
			}
			for _, q := range first.queues {
				q.entries, q.more = q.entries[:1], true
			}
			for counted, s := range map[string]*scan{"all": all, "one": first} {
				var got []store.ID
				for task, err := range firstAbout(s, wanted, func(text []byte) bool { return bytes.Contains(text, []byte(module)) }) {
					if err != nil {
						return err
					}
					got = append(got, task.ID)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s, %s counted: %s", module, counted, diff)
				}
			}
		}
		if found == 0 {
			t.Error("no task is about a module")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
