// Package inspect tells what became of a run, what it does now, what is in its
// way and what comes next: one [Run] is a snapshot of all that, made in one
// read of the store. It is data, so that a terminal, a script and a drawing show
// the same.
//
// A run is shown as a tree of steps: a node of the graph, its items, and for a
// module the nodes of its run with their hooks. The state of a step comes from the
// history if it has ended, and from the queues if it is pending. A problem is
// something that needs attention.
//
// Values and payloads are never part of a snapshot: they can hold secrets.
package inspect

import (
	"errors"
	"time"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// Schema is the version of the data a [Run] and a [Summary] are. Fields are
// added without a new version; it changes when one means something else.
const Schema = 1

// ErrNoRun is returned for a run that the store does not hold.
var ErrNoRun = errors.New("there is no such run")

// A State is how far a step, or a run, has come.
type State string

// The states. Those from Done to Quarantined are of work that has ended.
const (
	Done        State = "done"        // succeeded
	Allowed     State = "allowed"     // failed, as its binding allows
	Skipped     State = "skipped"     // a person passed over it
	Dropped     State = "dropped"     // what it was about is gone, or it no longer counts
	Superseded  State = "superseded"  // another run takes its place
	Joined      State = "joined"      // an equal task that waited does it
	Refused     State = "refused"     // what it read is invalid and not in force
	Quarantined State = "quarantined" // in quarantine until a user releases it

	Running     State = "running"     // is being done
	Waiting     State = "waiting"     // is pending; Wait says for what
	Failed      State = "failed"      // failed last; its run is on the way to it again
	Backoff     State = "backoff"     // failed last and is tried again when Due
	Interrupted State = "interrupted" // started in an older epoch and not ended
	Failing     State = "failing"     // of a run: a step of it failed last
)

// A Request says which run to show. Zero is the newest that needs a person,
// else the newest under way, else the newest that did more than a step or two.
type Request struct {
	Run uint64 `json:"run,omitempty"`
}

// A Run is a snapshot of everything that follows from one trigger.
type Run struct {
	Schema int       `json:"schema"`
	At     time.Time `json:"at"`    // of the snapshot
	Epoch  uint64    `json:"epoch"` // of the last write to the store
	// Live is set where the operator runs; a stopped store goes on from here
	// when one is started.
	Live bool `json:"live"`
	// Standby says for whom the operator waits, empty where it works.
	Standby string `json:"standby,omitempty"`

	ID      uint64      `json:"id"`
	Graph   string      `json:"graph"`
	Trigger string      `json:"trigger"`
	Subject string      `json:"subject,omitempty"`
	Cause   store.Cause `json:"cause,omitzero"`
	State   State       `json:"state"`
	Began   time.Time   `json:"began"`
	Ended   time.Time   `json:"ended,omitzero"`
	Open    int         `json:"open"` // pending tasks
	// Joined is the run that goes on in this one's stead.
	Joined uint64 `json:"joined,omitempty"`
	// Warning is that of the last step that ended with one.
	Warning string `json:"warning,omitempty"`

	Progress *Progress     `json:"progress,omitempty"`
	Counts   map[State]int `json:"counts,omitempty"` // of steps, by state
	Restarts *Restarts     `json:"restarts,omitempty"`
	// Passes counts from 1 how often the run went through its nodes. The steps
	// shown are those of the last pass, and what earlier passes did only once.
	Passes int `json:"passes"`
	// Cut is when the run was last taken back because what it goes by changed.
	Cut   time.Time `json:"cut,omitzero"`
	Steps []Step    `json:"steps,omitempty"`
	// Ahead is what the graph may still lead to beyond the pending tasks.
	Ahead []Ahead `json:"ahead,omitempty"`
	// Unread counts the lines of history that are older than those shown or were forgotten, up to
	// 20,000.
	Unread int `json:"unread,omitempty"`
	// Unfound counts the pending tasks that stand so far back in their queues that
	// nobody looked there.
	Unfound int `json:"unfound,omitempty"`

	// Lost is the last span of which the store knows nothing, for seven days; nil if there is none.
	Lost *store.LostSpan `json:"lost,omitempty"`
	// Problems of this run first, then those of others, newest first.
	Problems []Problem `json:"problems,omitempty"`
	Advice   []Advice  `json:"advice,omitempty"`
}

// Attention reports whether a person should look at something.
func (w *Run) Attention() bool { return len(w.Problems) > 0 }

// Progress counts the modules of the run.
type Progress struct {
	Done int `json:"done"`
	Of   int `json:"of"`
}

// Restarts describes the epochs in which a run was processed.
type Restarts struct {
	Count int    `json:"count"`
	First uint64 `json:"first"` // the epoch in which the run started
	Last  uint64 `json:"last"`
	// Again counts the attempts that a restart interrupted and that started again.
	Again int `json:"again"`
	// Resumed is the start of the first attempt in the last epoch.
	Resumed time.Time `json:"resumed,omitzero"`
}

// A Step is one row of the tree.
type Step struct {
	Node    string        `json:"node"`
	Number  string        `json:"number,omitempty"`
	Subject graph.Subject `json:"subject,omitzero"`
	State   State         `json:"state"`

	Task  store.ID  `json:"task,omitzero"` // pending, or done last
	Queue string    `json:"queue,omitempty"`
	Began time.Time `json:"began,omitzero"` // the attempt made last; of a run, its first
	Ended time.Time `json:"ended,omitzero"`
	Try   int       `json:"try,omitempty"` // of the attempt under way, made last, or due
	Due   time.Time `json:"due,omitzero"`  // when it is tried again
	// Failures counts the attempts in a row that failed; of a step that has ended, those before.
	Failures int `json:"failures,omitempty"`
	// LastError is the error of the last of Failures where the step has ended since.
	LastError string `json:"lastError,omitempty"`
	Error     string `json:"error,omitempty"`
	Detail    string `json:"detail,omitempty"`
	// Warning is about a result that needs a person although the step succeeded.
	Warning string `json:"warning,omitempty"`
	// Again is set if a restart interrupted an attempt and it started again.
	Again  bool   `json:"again,omitempty"`
	Merged int    `json:"merged,omitempty"` // tasks one attempt did at once
	Into   string `json:"into,omitempty"`   // the task that does it instead
	// Object is what a cluster event was about.
	Object *store.ObjectRef `json:"object,omitempty"`

	Wait   *Wait   `json:"wait,omitempty"`
	Behind *Behind `json:"behind,omitempty"`
	Ahead  []Ahead `json:"ahead,omitempty"`
	Steps  []Step  `json:"steps,omitempty"`
}

// A Reason says what a pending task waits for.
type Reason string

// The reasons.
const (
	ForRetry     Reason = "retry"   // the time of its next try
	ForTime      Reason = "time"    // its run changes values each time, so it is deferred
	ForHold      Reason = "hold"    // what it must not start before, or without; Held says what
	ForLimit     Reason = "limit"   // its hook has run too lately
	ForStep      Reason = "step"    // the step before it in its own run
	ForQueue     Reason = "queue"   // those before it in its queue
	ForRunning   Reason = "running" // the task that runs in its queue; it is next
	ForItems     Reason = "members" // its items, in other queues
	ForWorker    Reason = "turn"    // nothing; it is about to begin
	ForStart     Reason = "start"   // an operator: none runs
	ForPause     Reason = "pause"   // the resumption of its queue or of all work, which a person paused
	ForExclusive Reason = "alone"   // the end of a task that runs exclusively
	ForModules   Reason = "modules" // the success of failing modules, which are retried in queues of their own
)

// A Wait says why a pending task is not being done.
type Wait struct {
	For Reason `json:"for"`
	// Ahead counts the tasks before it in its queue, or the items it waits for.
	Ahead int `json:"ahead,omitempty"`
	// On is what is waited for, the first of it.
	On []Ref `json:"on,omitempty"`
	// Every is the time in which its hook may run once, as in "1m30s".
	Every string `json:"every,omitempty"`
	// Held is what keeps it from starting where no task is before it in its queue.
	Held *store.Reason `json:"held,omitempty"`
}

// A Ref points to a pending task.
type Ref struct {
	Task    store.ID      `json:"task"`
	Run     uint64        `json:"run"`
	Node    string        `json:"node"`
	Subject graph.Subject `json:"subject,omitzero"`
	Queue   string        `json:"queue"`
	State   State         `json:"state"`
	Due     time.Time     `json:"due,omitzero"`
}

// Behind is what waits behind a task.
type Behind struct {
	Queue string `json:"queue"`
	Run   int    `json:"run,omitempty"`   // steps of its own run, on its own place
	Tasks int    `json:"tasks,omitempty"` // on later places of the queue
	More  bool   `json:"more,omitempty"`  // there are still more tasks than were counted
	Next  []Ref  `json:"next,omitempty"`  // the first of Tasks
}

// Ahead is a node the graph may lead to, with the fact that decides it.
type Ahead struct {
	Node   string `json:"node"`
	Number string `json:"number,omitempty"`
	If     string `json:"if,omitempty"`
	Unless string `json:"unless,omitempty"`
	Each   string `json:"each,omitempty"`
}

// A Kind says what sort of problem there is.
type Kind string

// The kinds of problems.
const (
	KindFailing     Kind = "failing"             // a task fails and is tried again
	KindRefused     Kind = "refused"             // the ConfigMap's content is not in force
	KindBroken      Kind = "broken"              // a module cannot be loaded
	KindNoCRDs      Kind = "no crds"             // a module is not run, as its CRDs could not be installed
	KindStalled     Kind = "stalled"             // the engine cannot go on with a queue
	KindSlow        Kind = "slow"                // a hook runs far longer than it ever did
	KindFull        Kind = "disk full"           // the disk has no room for the store
	KindAPIServer   Kind = "api server"          // the API server is slow, or refuses or fails requests
	KindReview      Kind = "failing webhook"     // the hook of a webhook does not answer requests
	KindCertificate Kind = "webhook certificate" // the certificate of the webhooks expires soon
	KindMissedTick  Kind = "missed tick"         // a schedule came due while no operator ran
	KindPaused      Kind = "paused"              // a person paused work
	KindQuarantined Kind = "quarantined"         // a task is in quarantine because the operator crashed each time it ran
)

// Kinds returns all kinds of problems.
func Kinds() []Kind {
	return []Kind{
		KindFailing, KindRefused, KindBroken, KindNoCRDs, KindStalled, KindSlow, KindFull, KindAPIServer, KindReview, KindCertificate,
		KindMissedTick, KindPaused, KindQuarantined,
		Kind(store.NotExecutable), Kind(store.NewDirectory), Kind(store.ChangedDirectory), Kind(store.GoneDirectory),
		Kind(store.BadDirectories), Kind(store.UnknownKey), Kind(store.BlockedDeletion), Kind(store.FailingFilter),
		Kind(store.DamagedRecord), Kind(store.UnusableAddon), Kind(store.OrphanedModule), Kind(store.SharedObject), Kind(store.StaleWebhook),
	}
}

// A Problem is something a person should look at.
type Problem struct {
	Kind    Kind          `json:"kind"`
	Run     uint64        `json:"run,omitempty"`
	Task    store.ID      `json:"task,omitzero"`
	Queue   string        `json:"queue,omitempty"`
	Node    string        `json:"node,omitempty"`
	Subject graph.Subject `json:"subject,omitzero"`
	Try     int           `json:"try,omitempty"` // failures in a row
	At      time.Time     `json:"at,omitzero"`
	// Since is the time of the first of the failures in a row.
	Since time.Time `json:"since,omitzero"`
	Due   time.Time `json:"due,omitzero"`
	Error string    `json:"error,omitempty"`
	// Meaning is what the error of a failing step means; nil if that is not known.
	Meaning *Meaning `json:"meaning,omitempty"`
	// Leaves says what a failing step leaves until it succeeds; empty if the error shows it.
	Leaves string `json:"leaves,omitempty"`
	// Last is the last error of the hook of a webhook.
	Last   string  `json:"last,omitempty"`
	Behind *Behind `json:"behind,omitempty"`
	// Awaits is the Job or Pod of a Helm hook that a slow step waits for.
	Awaits string `json:"awaits,omitempty"`
	// Object is the file, directory, ConfigMap key or Kubernetes object of a problem that no task
	// reports, and More counts others with the same problem. At is since when it exists.
	Object string `json:"object,omitempty"`
	More   int    `json:"more,omitempty"`
	// Fix says what to edit or to run. Command holds the arguments of a command of this program. Effect says
	// what the command does besides, if that is hard to undo.
	Fix     string   `json:"fix,omitempty"`
	Command []string `json:"command,omitempty"`
	Effect  string   `json:"effect,omitempty"`
	// Held is how many tasks an item in quarantine holds.
	Held int `json:"held,omitempty"`
}

// Advice is a command to type next. Args follow the program's name.
type Advice struct {
	Args []string `json:"args"`
	Why  string   `json:"why"`
	// Instead says that the command takes the place of what the fix says. It is not a step after the fix.
	Instead bool `json:"instead,omitempty"`
}

// A Summary is one line about a run.
type Summary struct {
	ID      uint64      `json:"id"`
	Graph   string      `json:"graph"`
	Trigger string      `json:"trigger"`
	Subject string      `json:"subject,omitempty"`
	Cause   store.Cause `json:"cause,omitzero"`
	State   State       `json:"state"`
	Began   time.Time   `json:"began"`
	Ended   time.Time   `json:"ended,omitzero"`
	Open    int         `json:"open"`
	Joined  uint64      `json:"joined,omitempty"`
	Warning string      `json:"warning,omitempty"`
}

// A Reader makes snapshots.
type Reader struct {
	// Graphs are those whose runs are shown.
	Graphs []*graph.Graph
	// Live is set where the operator that writes the store runs.
	Live bool
	// Stalled holds, by queue, why the engine cannot go on with it.
	Stalled map[string]string
	// Full says why the disk has no room for the store, and since when; nil if it has.
	Full *store.Shortage
	// Slow are the runs of hooks under way that take far longer than any before.
	Slow []Problem
	// Webhooks are the problems of webhooks that the running operator knows.
	Webhooks []Problem
	// Missed returns the problems of schedules that missed ticks; nil where no operator ticks.
	Missed func(tx *store.Tx) ([]Problem, error)
	// Looks keeps the last look for other readers; nil if none is kept.
	Looks *Looks
	// Requests are the requests to the API server of the last minutes, for the status; nil where no operator runs.
	Requests *Requests
}

// graph returns the graph named name, an empty one where there is none.
func (r *Reader) graph(name string) *graph.Graph {
	for _, g := range r.Graphs {
		if g.Name == name {
			return g
		}
	}
	return &graph.Graph{Name: name}
}
