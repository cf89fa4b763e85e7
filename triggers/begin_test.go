package triggers

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/lease"
	"addon-operator/store"
	"addon-operator/store/storetest"
	"addon-operator/workflow"
	"addon-operator/workflow/lifecycle"
)

func TestWhetherAnOperatorBeginsAStartOrResumesItsWork(t *testing.T) {
	t.Parallel()
	open, last, ended := &store.Run{ID: 5, Open: 2}, &store.Run{ID: 5, Open: 1}, &store.Run{ID: 5}
	never := store.Startup{}
	unfinished := store.Startup{StartRun: 5, Digest: "code", Converged: 3}
	converged := store.Startup{StartRun: 5, Digest: "code", Converged: 5}
	compared := store.Startup{StartRun: 5, Digest: "code", ChartFiles: "files", Converged: 5}
	reloaded := store.Startup{StartRun: 5, Digest: "code", Converged: 9}
	for name, c := range map[string]struct {
		how     StartMode
		startup store.Startup
		run     *store.Run // the record of the last start run; nil if it no longer exists
		now     Circumstances
		why     string // empty if work resumes
	}{
		"a new store":                               {Always, never, nil, Circumstances{Code: "code"}, "first start with this store"},
		"a new store, if changed":                   {IfChanged, never, nil, Circumstances{Code: "code"}, "first start with this store"},
		"an unfinished start":                       {Always, unfinished, open, Circumstances{Code: "code"}, ""},
		"an unfinished start with one task left":    {Always, unfinished, last, Circumstances{Code: "code"}, ""},
		"an unfinished start, if changed":           {IfChanged, unfinished, open, Circumstances{Code: "code"}, ""},
		"an unfinished start, again":                {Again, unfinished, open, Circumstances{Code: "code"}, "--startup=again"},
		"an unfinished start, clean":                {Clean, unfinished, open, Circumstances{Code: "code"}, "--startup=clean"},
		"an unfinished start, in a new container":   {Always, unfinished, open, Circumstances{Code: "code", NewContainer: true}, "in a new container, run 5 was unfinished"},
		"an unfinished start of other code":         {IfChanged, unfinished, open, Circumstances{Code: "new"}, "the code has changed since the last start"},
		"a start that ended otherwise":              {IfChanged, unfinished, ended, Circumstances{Code: "code"}, "the last start has not converged"},
		"a start whose record is gone":              {Always, unfinished, nil, Circumstances{Code: "code"}, "the last start has not converged"},
		"a converged start":                         {Always, converged, ended, Circumstances{Code: "code"}, "each start converges"},
		"a converged start, if changed":             {IfChanged, converged, ended, Circumstances{Code: "code"}, ""},
		"a converged start, in a new container":     {IfChanged, converged, ended, Circumstances{Code: "code", NewContainer: true}, ""},
		"a converged start with work left":          {Always, converged, open, Circumstances{Code: "code"}, "each start converges"},
		"a converged reload, if changed":            {IfChanged, reloaded, ended, Circumstances{Code: "code"}, ""},
		"a converged start of other code":           {IfChanged, converged, ended, Circumstances{Code: "new"}, "the code has changed since the last start"},
		"dropped work of a converged start":         {IfChanged, converged, ended, Circumstances{Code: "code", Dropped: "a copy"}, "pending work was dropped: a copy"},
		"dropped work, again":                       {Again, converged, ended, Circumstances{Code: "code", Dropped: "a copy"}, "pending work was dropped: a copy"},
		"an unfinished start with dropped work":     {Always, unfinished, open, Circumstances{Code: "code", Dropped: "a copy"}, "pending work was dropped: a copy"},
		"a converged start of an unknown container": {IfChanged, converged, nil, Circumstances{Code: "code"}, ""},
		"a converged start with the same files":     {IfChanged, compared, ended, Circumstances{Code: "code", ChartFiles: "files"}, ""},
		"a converged start with other files":        {IfChanged, compared, ended, Circumstances{Code: "code", ChartFiles: "new"}, "files of charts have changed since the last start"},
		"a converged start with unknown files":      {IfChanged, converged, ended, Circumstances{Code: "code", ChartFiles: "new"}, ""},
		"files do not matter":                       {Always, compared, ended, Circumstances{Code: "code"}, "each start converges"},
		"an unfinished start with other files":      {IfChanged, unfinished, open, Circumstances{Code: "code", ChartFiles: "new"}, ""},
	} {
		db := storetest.Memory(t)
		lost := errors.New("not committed, because the tasks of the runs are missing")
		if err := db.Update(func(tx *store.Tx) error {
			if err := store.Save(tx, store.StartupKey(), c.startup); err != nil {
				return err
			}
			if c.run != nil {
				if err := store.Save(tx, store.RunKey(5), c.run); err != nil {
					return err
				}
			}
			c.now.Version, c.now.Pod = "v1", "pod-0"
			events, err := Begin(tx, c.how, c.now)
			if err != nil {
				return err
			}
			content := workflow.Event{On: lifecycle.OnConfigMap, Cause: store.Cause{Detail: "operator start"}}
			want := []workflow.Event{content}
			if c.why != "" { // both events add a task at the front of the main queue; the event for the ConfigMap is raised last, so its task is first
				start := workflow.Event{On: lifecycle.OnStart, Supersedes: lifecycle.GlobalBeforeAll, Cause: store.Cause{Detail: c.why}}
				want = []workflow.Event{start, content}
			}
			if diff := cmp.Diff(want, events); diff != "" {
				t.Errorf("%s: events (-want +got):\n%s", name, diff)
			}
			got, err := store.LoadStartup(tx)
			record := c.startup
			if record.ChartFiles == "" {
				record.ChartFiles = c.now.ChartFiles
			}
			if c.why != "" {
				record.StartRun, record.Epoch, record.Digest, record.ChartFiles = got.StartRun, tx.Epoch(), c.now.Code, c.now.ChartFiles
			}
			if diff := cmp.Diff(record, got); diff != "" || c.why != "" && (got.StartRun == 0 || got.StartRun == c.startup.StartRun) {
				t.Errorf("%s: the start is run %d; record (-want +got):\n%s", name, got.StartRun, diff)
			}
			return errors.Join(err, lost)
		}); !errors.Is(err, lost) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWorkThatAnotherOperatorHasReplacedIsDropped(t *testing.T) {
	t.Parallel()
	written, copied, until := time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC), time.Date(2024, 4, 1, 0, 0, 0, 0, time.UTC), time.Date(2024, 4, 2, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		tenure   uint64 // the last epoch in which an operator took over its namespace with the store; 0 for a new store
		ends     store.Ends
		copy     *store.Copy
		previous lease.Previous
		own      bool // the previous holder of the Lease used this store
		how      string
		from, to time.Time // bounds of the lost span; zero means now
	}{
		"a new store after another operator":  {previous: lease.Previous{Holder: lease.Holder{Store: "other", Epoch: 9}}},
		"a new store after another program":   {previous: lease.Previous{Foreign: true}},
		"nobody has held the Lease":           {tenure: 2},
		"this store in its last epoch":        {tenure: 2, previous: lease.Previous{Holder: lease.Holder{Epoch: 2}}, own: true},
		"this store in an earlier epoch":      {tenure: 2, previous: lease.Previous{Holder: lease.Holder{Epoch: 1}}, own: true},
		"this store in a later epoch":         {tenure: 2, previous: lease.Previous{Holder: lease.Holder{Epoch: 3}}, own: true, how: "the store ends with epoch 2, but an operator worked with it until epoch 3", from: written},
		"this store, after a clean exit":      {tenure: 2, ends: store.Ends{Begun: 2, Ended: 2}, previous: lease.Previous{Holder: lease.Holder{Epoch: 2, Ended: 2}}, own: true},
		"this store, after a crash":           {tenure: 2, ends: store.Ends{Begun: 2, Ended: 1}, previous: lease.Previous{Holder: lease.Holder{Epoch: 2, Ended: 1}}, own: true},
		"this store, after a failed start":    {tenure: 3, ends: store.Ends{Begun: 2, Ended: 2}, previous: lease.Previous{Holder: lease.Holder{Epoch: 3, Ended: 2}}, own: true},
		"this store without its ends":         {tenure: 2, previous: lease.Previous{Holder: lease.Holder{Epoch: 2, Ended: 2}}, own: true},
		"this store before its clean exit":    {tenure: 2, ends: store.Ends{Begun: 2, Ended: 1}, previous: lease.Previous{Holder: lease.Holder{Epoch: 2, Ended: 2}}, own: true, how: "the store is an older copy: it lacks the end of epoch 2, which an operator has recorded in it", from: written},
		"another store":                       {tenure: 2, previous: lease.Previous{Holder: lease.Holder{Store: "other", Epoch: 9}}, how: "an operator with another store (other, epoch 9) held the Lease", from: written},
		"another program":                     {tenure: 2, previous: lease.Previous{Holder: lease.Holder{Epoch: 2}, Foreign: true}, own: true, how: "another program held the Lease", from: written},
		"a copy":                              {tenure: 2, copy: &store.Copy{Epoch: 1, At: copied}, previous: lease.Previous{Holder: lease.Holder{Epoch: 2}}, own: true, how: "the store is a copy, made in epoch 1, of one that was in use", from: copied},
		"a snapshot":                          {tenure: 2, copy: &store.Copy{Epoch: 1, At: copied, Restored: "s1", Until: until}, previous: lease.Previous{Holder: lease.Holder{Epoch: 2}}, own: true, how: "the snapshot s1, made in epoch 1, was restored", from: copied, to: until},
		"a snapshot, and another operator":    {tenure: 2, copy: &store.Copy{Epoch: 1, At: copied, Restored: "s1", Until: until}, previous: lease.Previous{Holder: lease.Holder{Store: "other", Epoch: 9}}, how: "the snapshot s1, made in epoch 1, was restored", from: copied},
		"a snapshot, and later epochs of it":  {tenure: 2, copy: &store.Copy{Epoch: 1, At: copied, Restored: "s1", Until: until}, previous: lease.Previous{Holder: lease.Holder{Epoch: 7}}, own: true, how: "the snapshot s1, made in epoch 1, was restored", from: copied, to: until},
		"a copy of a store that was not used": {copy: &store.Copy{Epoch: 1, At: copied}},
	} {
		db := storetest.Memory(t)
		if err := db.Update(func(tx *store.Tx) error {
			if c.copy != nil {
				if err := store.Save(tx, store.CopyKey(), *c.copy); err != nil {
					return err
				}
			}
			if c.tenure == 0 {
				return nil
			}
			return errors.Join(store.Save(tx, store.TenureKey(), store.Tenure{Epoch: c.tenure}), store.Save(tx, store.EndsKey(), c.ends))
		}); err != nil {
			t.Fatal(err)
		}
		if c.own {
			c.previous.Store = db.ID()
		}
		began := db.Now()
		dropped, err := TakeOver(t.Context(), db, c.previous, written)
		if err != nil {
			t.Fatal(err)
		}
		if err := db.View(func(tx *store.Tx) error {
			lost, noted, err := store.Load[store.LostSpan](tx, store.LostSpanKey())
			if noted != (c.how != "") || lost.How != c.how || !noted && dropped != "" || noted && dropped != lost.String() {
				t.Errorf("%s: dropped because of %q, recorded %+v; want %q", name, dropped, lost, c.how)
			}
			if noted && (!lost.From.Equal(c.from) || !lost.To.Equal(c.to) && (!c.to.IsZero() || lost.To.Before(began.Truncate(time.Second)))) {
				t.Errorf("%s: the span is from %s to %s, want from %s to %s", name, lost.From, lost.To, c.from, c.to)
			}
			tenure, _, tenureErr := store.Load[store.Tenure](tx, store.TenureKey())
			if tenure.Epoch != tx.Epoch() || tx.Get(store.CopyKey()) != nil {
				t.Errorf("%s: the tenure is %+v; the mark of a copy is kept: %t", name, tenure, tx.Get(store.CopyKey()) != nil)
			}
			return errors.Join(err, tenureErr)
		}); err != nil {
			t.Fatal(err)
		}
	}
}
