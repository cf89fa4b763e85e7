package debugapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"

	"addon-operator/cmd/addon-operator/debugapi/addons"
	"addon-operator/internal/metrics"
	"addon-operator/internal/values"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
	"addon-operator/workflow/lifecycle"
)

// storePages checks, dumps and copies the store.
type storePages struct {
	db   *store.DB
	path string
}

// StatusDamaged is the HTTP status of the answer of /store/check if the store is damaged.
const StatusDamaged = http.StatusUnprocessableEntity

// checkRoute reads the whole store and reports errors in it.
func (pages storePages) checkRoute(w http.ResponseWriter, _ *http.Request) {
	if err := pages.db.Check(); err != nil {
		if errors.Is(err, store.ErrCorrupt) {
			err = &routeError{StatusDamaged, err}
		}
		Fail(w, err)
		return
	}
	_, _ = fmt.Fprintf(w, "store %s is sound (epoch %d)\n", pages.path, pages.db.Epoch())
}

// dumpRoute writes the records of the requested tables, one per line. If no table is requested, dumpRoute writes all
// tables.
func (pages storePages) dumpRoute(w http.ResponseWriter, r *http.Request) {
	var tables []store.Table
	for _, name := range r.URL.Query()["table"] {
		t, err := store.ParseTable(name)
		if err != nil {
			Fail(w, BadRequest("%w; the tables are: %s", err, TableNames()))
			return
		}
		tables = append(tables, t)
	}
	w.Header().Set("Content-Type", "application/jsonl")
	to, named := io.Writer(w), tables
	switch {
	case showSecrets(r) && len(tables) == 0:
		named = allTables()
	case !showSecrets(r):
		// The store masks secrets only in a dump of all tables, so the tables are selected here.
		to, named = &ofTables{to: w, tables: tables}, nil
	}
	if err := store.Dump(pages.db, to, named...); err != nil {
		Fail(w, err)
	}
}

// ofTables is a writer for a dump of the store. ofTables passes the lines of the selected tables to another writer, or
// all lines if no table is selected.
type ofTables struct {
	to     io.Writer
	tables []store.Table
	rest   []byte
}

// Write writes the complete lines that belong to the tables, and buffers an incomplete last line
// for the next call.
func (o *ofTables) Write(p []byte) (int, error) {
	if len(o.tables) == 0 {
		return o.to.Write(p)
	}
	o.rest = append(o.rest, p...)
	for {
		i := bytes.IndexByte(o.rest, '\n')
		if i < 0 {
			return len(p), nil
		}
		line := o.rest[:i+1]
		o.rest = o.rest[i+1:]
		var row struct {
			Table string `json:"table"`
		}
		if err := json.Unmarshal(line, &row); err != nil {
			return 0, err
		}
		if slices.ContainsFunc(o.tables, func(t store.Table) bool { return t.String() == row.Table }) {
			if _, err := o.to.Write(line); err != nil {
				return 0, err
			}
		}
	}
}

// TableList returns the names of all tables.
func TableList() (names []string) {
	for _, t := range allTables() {
		names = append(names, t.String())
	}
	return names
}

// TableNames returns the names of all tables, separated by commas.
func TableNames() string { return strings.Join(TableList(), ", ") }

// snapshotRoute writes a copy of the store.
func (pages storePages) snapshotRoute(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/octet-stream")
	if err := pages.db.Snapshot(w); err != nil {
		// If the HTTP status was sent already, Fail cannot change the status. So the client
		// verifies the copy.
		Fail(w, err)
	}
}

// allTables returns all tables.
func allTables() (all []store.Table) {
	for t := store.Meta; ; t++ {
		if _, err := store.ParseTable(t.String()); err != nil {
			return all
		}
		all = append(all, t)
	}
}

// State reads the state from which the metrics of one scrape are computed. An unreadable record does not make State
// fail. Problems in the result includes the number of unreadable records.
func (api *API) State() (metrics.State, error) {
	s := metrics.State{Ticks: float64(int(api.Now().Sub(api.Began).Seconds()) / 10)}
	if info, err := os.Stat(api.Path); err == nil {
		s.StoreBytes = info.Size()
	}
	s.StoreFull = api.DB.Shortage() != nil
	err := api.DB.View(func(tx *store.Tx) error {
		if err := api.queueState(tx, &s); err != nil {
			return err
		}
		for k := range tx.Range(store.At(store.Bindings)) {
			b, _, err := store.Load[store.Binding](tx, k)
			if isUnreadable(err) {
				continue
			}
			if err != nil {
				return err
			}
			subject, err := store.ParseBindingKey(k)
			if err != nil {
				return err
			}
			seen := metrics.Seen{Binding: BindingOf(subject, "", b.Queue), Kubernetes: b.Kind == store.Kubernetes}
			if seen.Kubernetes && api.Snapshot != nil {
				seen.Objects = len(api.Snapshot(subject))
			}
			s.Bindings = append(s.Bindings, seen)
		}
		if err := addons.AddState(tx, &s); err != nil {
			return err
		}
		if err := api.problemsState(tx, &s); err != nil {
			return err
		}
		maintained, err := maintenance(tx)
		if err != nil {
			return err
		}
		return eachModule(tx, func(name string, m store.Module) error {
			s.Modules = append(s.Modules, metrics.Module{Name: name, Enabled: m.Enabled, Maintenance: maintained[values.Camel(name)]})
			return nil
		})
	})
	return s, err
}

// problemsState counts all problems by kind and module. For each kind, the result has the number of problems that
// belong to no module, even if this number is 0.
func (api *API) problemsState(tx *store.Tx, s *metrics.State) error {
	problems, err := api.reader().Problems(tx)
	s.Problems = map[metrics.Problem]int{}
	for _, kind := range inspect.Kinds() {
		s.Problems[metrics.Problem{Kind: string(kind)}] = 0
	}
	for _, p := range problems {
		s.Problems[metrics.Problem{Kind: string(p.Kind), Module: p.Subject.Module}]++
	}
	return err
}

// maintenance returns the maintenance state of each module that the ConfigMap puts in maintenance, by the key of its
// section. If the content in force cannot be read, no module is in maintenance.
func maintenance(tx *store.Tx) (map[string]string, error) {
	c, err := appliedConfig(tx)
	if err != nil && !isUnreadable(err) {
		return nil, err
	}
	states := map[string]string{}
	for key := range c.Maintained {
		states[key] = values.NoReconciliation
	}
	return states, nil
}

// queueState adds the length and the head of each queue to s. The queue main and the queues of attached bindings are
// included even if they are empty. If the head of a queue cannot be read, only the length of the queue is added.
func (api *API) queueState(tx *store.Tx, s *metrics.State) error {
	names, err := boundQueues(tx)
	if err != nil {
		return err
	}
	for name, err := range store.AllQueues(tx) {
		if err != nil {
			return err
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		q := metrics.Queue{Name: name, Length: countRecords(tx, store.QueueKey(name))}
		head, ok, err := store.Head(tx, name)
		if err != nil && !isUnreadable(err) {
			return err
		}
		if ok {
			q.Node, q.Module, q.Hook = TaskType(head.Node), head.Subject.Module, head.Subject.Hook
			switch {
			case head.Claim != nil && head.Claim.Epoch == api.DB.Epoch():
				q.State = "running"
			case head.Failed != nil:
				q.State = "retrying"
			default:
				q.State = "waiting"
			}
		}
		s.Queues = append(s.Queues, q)
	}
	return nil
}

// ConvergeTasks returns the number of pending tasks that are treated as tasks of a converge. These are all tasks in the
// main queue, except those of events, of schedule ticks and of step 16. So the number includes the run of a single
// module, even if no converge has requested that run. The number also includes all tasks in the queue
// [workflow.Parked], which has the last steps of converges that wait for failing modules.
func ConvergeTasks(tx *store.Tx) (n int, err error) {
	for _, err := range store.Tasks(tx, workflow.Parked) {
		if err != nil {
			return 0, err
		}
		n++
	}
	for t, err := range store.Tasks(tx, workflow.Main) {
		if err != nil {
			return 0, err
		}
		if node, ok := lifecycle.Graph.Node(graph.NodeID(t.Node)); ok && !node.Batch && node.ID != lifecycle.ConfigMapChanged {
			n++
		}
	}
	return n, nil
}
