// Package inspect describes a run: what it did, what it does now, what blocks it, and what follows.
// A [Run] is a snapshot of this information, read in one transaction. A snapshot is data, from
// which texts, JSON and drawings are made, so that all of them show the same.
//
// A run is shown as a tree of steps. A step of the first level is a node of the graph. Below such a step are its items,
// and below a module are the nodes of the module's run with their hooks. The state of an ended step is read from the
// history, and the state of a pending step from the queues. A problem is something that needs attention.
//
// A [Run] never contains values or payloads, because they can have secrets. In the changed values of other snapshots,
// secrets are masked.
package inspect

import (
	"errors"
	"time"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// Schema is the version of the JSON of a [Run] and of the other snapshots. Schema stays the same
// when a field is added, and changes when a field gets another meaning.
const Schema = 1

// ErrNoRun is the error for a run that is not in the store.
var ErrNoRun = errors.New("there is no such run")

// A State is the state of a step or of a run.
type State string

// States. Work in the states from Done to Quarantined has ended.
const (
	Done        State = "done"        // succeeded
	Allowed     State = "allowed"     // the hook failed, but its binding has allowFailure
	Skipped     State = "skipped"     // a person skipped the step
	Dropped     State = "dropped"     // the subject of the step no longer exists, or the result of the step is ignored
	Superseded  State = "superseded"  // another task replaced it
	Joined      State = "joined"      // an equal task was waiting already and does the work
	Refused     State = "refused"     // the content of the ConfigMap was invalid and is not in force
	Quarantined State = "quarantined" // in quarantine until a person releases or skips it

	Running     State = "running"     // running
	Waiting     State = "waiting"     // pending; Wait has the reason
	Failed      State = "failed"      // the last attempt failed; the run has started over and will reach the step again
	Backoff     State = "backoff"     // the last attempt failed; the next attempt is due at Due
	Interrupted State = "interrupted" // the process that started the attempt ended during the attempt
	Failing     State = "failing"     // of a run: the last attempt of one of its steps failed
)

// A Request names the run to show. If Run is 0, the Request selects the newest run that needs attention. If no run
// needs attention, the Request selects the run of the running task of the main queue, or else the run of the first task
// of the main queue. If the main queue is empty, the Request selects the newest run that has a task at the head of a
// queue, or a deferred or held task. If no run has such a task, the Request selects the last converge, or the newest of
// the later runs with more than two lines of history.
type Request struct {
	Run uint64 `json:"run,omitempty"`
}

// A Run is a snapshot of everything that follows from one trigger.
type Run struct {
	Schema int       `json:"schema"`
	At     time.Time `json:"at"`    // time of the snapshot
	Epoch  uint64    `json:"epoch"` // epoch of the last write to the store
	// Live is set if the operator runs. If no operator runs, the next one continues from this state.
	Live bool `json:"live"`
	// Standby says which operator holds the Lease for which this operator waits, or why the Lease cannot be acquired.
	// Standby is empty if this operator does not wait.
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
	// Joined is the run that continues the work of this run.
	Joined uint64 `json:"joined,omitempty"`
	// Warning is the warning of the last step that ended with a warning.
	Warning string `json:"warning,omitempty"`

	Progress *Progress     `json:"progress,omitempty"`
	Counts   map[State]int `json:"counts,omitempty"` // number of steps by state, without steps that have steps below them
	Restarts *Restarts     `json:"restarts,omitempty"`
	// Passes is the number of times that the run has gone through its nodes, at least 1. Steps has the
	// steps of the last pass, and the steps that only earlier passes did.
	Passes int `json:"passes"`
	// Cut is the last time at which another task replaced a step of the run, for example because a change or a restart
	// made the run start over.
	Cut   time.Time `json:"cut,omitzero"`
	Steps []Step    `json:"steps,omitempty"`
	// Ahead are the nodes to which the graph may lead after the pending tasks.
	Ahead []Ahead `json:"ahead,omitempty"`
	// Unread is the number of lines of history that are not shown, at most 20,000. These lines are
	// too old to be read, or were deleted.
	Unread int `json:"unread,omitempty"`
	// Unfound is the number of pending tasks that were not read, because they are too far back in long
	// queues.
	Unfound int `json:"unfound,omitempty"`

	// Lost is the last span for which the store has no data; nil if there is none, or if the operator resumed its work
	// more than seven days ago.
	Lost *store.LostSpan `json:"lost,omitempty"`
	// Problems has the problems of this run, then the problems of other runs, newest run first, and then the problems
	// of no run. The problem of slow or failing requests to the API server is only in a [Status] and in a [Diagnosis].
	Problems []Problem `json:"problems,omitempty"`
	Advice   []Advice  `json:"advice,omitempty"`
}

// Attention reports whether something needs attention.
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
	// Again is the number of attempts that began again after a restart had interrupted them.
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

	Task  store.ID `json:"task,omitzero"` // the pending task of the step; if there is none, its last task
	Queue string   `json:"queue,omitempty"`
	// Began is the start of the last attempt. If the step has steps below it, Began is the start of the first of them.
	Began time.Time `json:"began,omitzero"`
	Ended time.Time `json:"ended,omitzero"`
	Try   int       `json:"try,omitempty"` // number of the running, last or next attempt
	Due   time.Time `json:"due,omitzero"`  // time of the next attempt
	// Failures is the number of consecutive failed attempts. If the step has ended, the last attempt
	// is not counted.
	Failures int `json:"failures,omitempty"`
	// LastError is the error of the last failure before the step ended.
	LastError string `json:"lastError,omitempty"`
	Error     string `json:"error,omitempty"`
	Detail    string `json:"detail,omitempty"`
	// Warning describes a result that needs attention, although the step succeeded.
	Warning string `json:"warning,omitempty"`
	// Again is set if an attempt began again after a restart had interrupted it.
	Again  bool `json:"again,omitempty"`
	Merged int  `json:"merged,omitempty"` // number of tasks in the attempt
	// Into is the task that does the work of this step instead, or the item in quarantine that holds this work.
	Into string `json:"into,omitempty"`
	// Object is the object of a Kubernetes event.
	Object *store.ObjectRef `json:"object,omitempty"`

	Wait   *Wait   `json:"wait,omitempty"`
	Behind *Behind `json:"behind,omitempty"`
	Ahead  []Ahead `json:"ahead,omitempty"`
	Steps  []Step  `json:"steps,omitempty"`
}

// A Reason is the reason why a pending task does not run.
type Reason string

// Reasons why a pending task does not run.
const (
	ForRetry     Reason = "retry"   // the next attempt of the task is not due
	ForTime      Reason = "time"    // the task is deferred, because its run changes values repeatedly
	ForHold      Reason = "hold"    // the task is held for the reason in Held
	ForLimit     Reason = "limit"   // the rate limit of the hook delays the task
	ForStep      Reason = "step"    // the task waits for an earlier step of its own run
	ForQueue     Reason = "queue"   // the task waits for earlier tasks in its queue
	ForRunning   Reason = "running" // the task is next in its queue, and another task of the queue runs
	ForItems     Reason = "members" // the fan-out task waits for its items in other queues
	ForWorker    Reason = "turn"    // the task waits for nothing and is about to begin
	ForStart     Reason = "start"   // no operator runs
	ForPause     Reason = "pause"   // a person paused the queue of the task or all work
	ForExclusive Reason = "alone"   // another task runs exclusively, or must run exclusively next
	ForModules   Reason = "modules" // the task waits for failing modules, which are retried in queues of their own
)

// A Wait says why a pending task does not run.
type Wait struct {
	For Reason `json:"for"`
	// Ahead is the number of tasks before the task in its queue. For [ForStep], only the tasks in its slot, or the
	// earlier items of its fan-out, are counted. For [ForRunning], Ahead is 1: the running task. For [ForItems], Ahead
	// is the number of open items.
	Ahead int `json:"ahead,omitempty"`
	// On has the first tasks for which the task waits, at most three.
	On []Ref `json:"on,omitempty"`
	// Every is the interval in which a rate limit allows one run of the hook on average, such as "1m30s".
	Every string `json:"every,omitempty"`
	// Held is the reason why the task cannot start, although no task is before it in its queue.
	Held *store.Reason `json:"held,omitempty"`
}

// A Ref identifies a pending task.
type Ref struct {
	Task    store.ID      `json:"task"`
	Run     uint64        `json:"run"`
	Node    string        `json:"node"`
	Subject graph.Subject `json:"subject,omitzero"`
	Queue   string        `json:"queue"`
	State   State         `json:"state"`
	Due     time.Time     `json:"due,omitzero"`
}

// Behind describes the work behind a task.
type Behind struct {
	Queue string `json:"queue"`
	Run   int    `json:"run,omitempty"` // number of later steps in the slot of the task
	// Tasks is the number of tasks in later slots of the queue. If the task runs, Tasks also counts the tasks in
	// earlier slots, which were put at the front while the task runs.
	Tasks int   `json:"tasks,omitempty"`
	More  bool  `json:"more,omitempty"` // the queue has more tasks than were counted
	Next  []Ref `json:"next,omitempty"` // the first of the counted tasks
}

// Ahead is a node to which the graph may lead, with the facts on which the edge depends.
type Ahead struct {
	Node   string `json:"node"`
	Number string `json:"number,omitempty"`
	If     string `json:"if,omitempty"`
	Unless string `json:"unless,omitempty"`
	Each   string `json:"each,omitempty"`
}

// A Kind is a kind of problem.
type Kind string

// Kinds of problems.
const (
	KindFailing     Kind = "failing"             // a task fails and is retried
	KindRefused     Kind = "refused"             // the content of the ConfigMap is not in force
	KindBroken      Kind = "broken"              // a module cannot be loaded
	KindNoCRDs      Kind = "no crds"             // a module is not run, because its CRDs cannot be installed
	KindStalled     Kind = "stalled"             // the engine cannot process a queue
	KindSlow        Kind = "slow"                // a hook or an enabled script runs unusually long, or a step waits long for a Helm hook
	KindFull        Kind = "disk full"           // the disk has no space for the store
	KindAPIServer   Kind = "api server"          // the API server is slow, or rejects or fails requests
	KindReview      Kind = "failing webhook"     // the hook of a webhook does not answer requests
	KindCertificate Kind = "webhook certificate" // the certificate of the webhooks expires soon or has expired
	KindMissedTick  Kind = "missed tick"         // a schedule was due while no operator ran
	KindPaused      Kind = "paused"              // a person paused work
	KindQuarantined Kind = "quarantined"         // a task is in quarantine, because the operator crashed each time the task ran
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

// A Problem is something that needs attention.
type Problem struct {
	Kind    Kind          `json:"kind"`
	Run     uint64        `json:"run,omitempty"`
	Task    store.ID      `json:"task,omitzero"`
	Queue   string        `json:"queue,omitempty"`
	Node    string        `json:"node,omitempty"`
	Subject graph.Subject `json:"subject,omitzero"`
	Try     int           `json:"try,omitempty"` // number of consecutive failures, or of crashes of an item in quarantine
	// At is the time of the last failure of a failing step. For other problems, At is the time at which the problem
	// began; zero if this time is not known. For a record that cannot be read, At is the time of the snapshot.
	At time.Time `json:"at,omitzero"`
	// Since is the time of the first of the consecutive failures. Due is the time of the next attempt.
	Since time.Time `json:"since,omitzero"`
	Due   time.Time `json:"due,omitzero"`
	Error string    `json:"error,omitempty"`
	// Meaning explains the error of a failing step; nil if its meaning is not known.
	Meaning *Meaning `json:"meaning,omitempty"`
	// Leaves describes the state of the cluster until a failing step succeeds or a broken module is loaded; empty if
	// the error shows this state.
	Leaves string `json:"leaves,omitempty"`
	// Last is the last error of the hook that answers a webhook.
	Last   string  `json:"last,omitempty"`
	Behind *Behind `json:"behind,omitempty"`
	// Awaits is the Job or Pod of a Helm hook for which a slow step waits.
	Awaits string `json:"awaits,omitempty"`
	// Object is the file, the ConfigMap key, the Kubernetes object or another object that has the problem, if the
	// problem has no task. More is the number of other objects with the same problem.
	Object string `json:"object,omitempty"`
	More   int    `json:"more,omitempty"`
	// Fix says what to edit or to run. Command has the arguments of a command of this program that
	// solves the problem. Effect describes what the command does, for example a consequence that is hard to undo.
	Fix     string   `json:"fix,omitempty"`
	Command []string `json:"command,omitempty"`
	Effect  string   `json:"effect,omitempty"`
	// Held is the number of tasks that an item in quarantine or a pause holds.
	Held int `json:"held,omitempty"`
}

// Advice is a command that a user can run. Args are the arguments of the command, without the name of the program. Why
// is the purpose of the command.
type Advice struct {
	Args []string `json:"args"`
	Why  string   `json:"why"`
	// Instead is set if the command replaces the fix. If Instead is not set, the command only shows something (see
	// [Advice.ChangesNothing]), is for use after the fix, or, if there is no other fix, is the fix itself.
	Instead bool `json:"instead,omitempty"`
}

// A Summary describes a run in one line of a list.
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
	// Graphs are the graphs whose runs are shown.
	Graphs []*graph.Graph
	// Live is set if the reader is part of the running operator.
	Live bool
	// Stalled has the queues that the engine cannot process, each with the error that prevents it.
	Stalled map[string]string
	// Full describes the lack of space on the disk of the store; nil if there is enough space.
	Full *store.Shortage
	// Slow has the problems of hooks and enabled scripts that run unusually long, and of long waits for Helm hooks.
	Slow []Problem
	// Webhooks has the problems of webhooks, which only the running operator knows.
	Webhooks []Problem
	// Missed returns the problems of schedules with missed ticks. Missed is nil if no operator runs, or if the operator
	// waits for the Lease.
	Missed func(tx *store.Tx) ([]Problem, error)
	// Scans keeps the last scan for other readers; nil means no cache.
	Scans *ScanCache
	// Requests describes the latest requests to the API server, for [Reader.Status], [Reader.Diagnose] and
	// [Reader.Problems]; nil if no operator runs.
	Requests *Requests
}

// graph returns the graph with the given name; an empty graph if there is none.
func (r *Reader) graph(name string) *graph.Graph {
	for _, g := range r.Graphs {
		if g.Name == name {
			return g
		}
	}
	return &graph.Graph{Name: name}
}
