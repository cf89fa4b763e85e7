package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// A Task is the input of a step: the stored task with its payload, and data of this attempt. While an item of a fan-out
// is processed, the subject is that of the item. Items, End and Skipped belong to no attempt: for them, only the stored
// task is set, and a large payload can be missing.
type Task struct {
	store.Task
	// Batch has the tasks of this attempt in order, the first one included.
	Batch []*store.Task
	// Try is the number of this attempt, starting at 1. Interrupted attempts are not counted.
	Try int
	// Previous says how the previous attempt ended.
	Previous Previous
	// Resumed is set if Effect is called for the outcome of an earlier attempt. Some effects of the
	// outcome may be done already.
	Resumed bool

	applied *applied // requests of Apply
	output  *output  // lines that Do prints
}

// applied collects the remarks and the withdrawals that Apply requests.
type applied struct {
	remarks     []string
	withdrawals []Withdrawal
}

// Remark adds a text for people to the history of the attempt. Only Apply may call Remark.
func (t Task) Remark(text string) {
	if t.applied != nil {
		t.applied.remarks = append(t.applied.remarks, text)
	}
}

// A Withdrawal names waiting events of a hook that need no delivery.
type Withdrawal struct {
	Queue   string
	Subject graph.Subject // the hook
	// Why is the reason that the history shows for each removed event.
	Why string
	// Match reports whether an event is removed. Match can be called in later transactions as well.
	Match func(*store.Task) bool
}

// Withdraw removes the events of w after Apply, in the same transaction. Withdraw keeps an event if a running attempt
// covers it, if its effects have begun, or if it was the first event of an interrupted attempt. Events that exceed the
// budget of the transaction are removed in later transactions. If the operator crashes before these transactions, the
// remaining events are delivered. Only Apply may call Withdraw.
func (t Task) Withdraw(w Withdrawal) {
	if t.applied != nil {
		t.applied.withdrawals = append(t.applied.withdrawals, w)
	}
}

// A Previous says how the previous attempt ended.
type Previous string

// Values of Previous.
const (
	None        Previous = "none"
	WasFailed   Previous = "failed"
	Interrupted Previous = "interrupted"
)

// An Outcome is the result of a step. An Outcome is only data, so it can be stored, and another
// process can execute its effects. An Outcome does not say which node comes next.
type Outcome struct {
	Facts   []graph.Fact                  `json:"facts,omitempty"`
	Items   map[graph.FanOut][]graph.Item `json:"lists,omitempty"`
	Effects []Effect                      `json:"effects,omitempty"`
	// Data is for the method Apply of the step.
	Data json.RawMessage `json:"data,omitempty"`
	// Detail is one line for people.
	Detail string `json:"detail,omitempty"`
	// Changes are the changes of values that the step made; nil if there are none. Marks such as "(redacted)" replace
	// secrets.
	Changes *store.ValueChanges `json:"changes,omitempty"`
	// Warning is one line about a result that a person must look at, although the step succeeded.
	// The run keeps the last warning.
	Warning string `json:"warning,omitempty"`
	// Dropped is the reason why the step did nothing, if the subject of the task no longer exists.
	Dropped string `json:"dropped,omitempty"`
	// Allowed is the error of a failed attempt, if the binding allows failures. Only the engine
	// sets Allowed.
	Allowed string `json:"allowed,omitempty"`
}

// An Effect is one change outside of the store.
type Effect struct {
	Kind string          `json:"kind"`
	Data json.RawMessage `json:"data"`
}

// A Step is the implementation of a node. Do runs outside of any transaction. Do may be called again for the same task
// after a failure or an interruption. So Do may make only those changes outside of the store that it can repeat; it
// returns all others as effects.
//
// A step can also implement [Effecter], [Applier], [FanOuter], [Ender], [Preparer], [RateLimiter], [BatchSizer],
// [Gater] or [Skipper]. A panic in a method is treated as an error of the method. A method that gets a transaction must
// change nothing but the store: the engine can roll back the transaction, and call the method again in another one.
type Step interface {
	Do(ctx context.Context, t Task) (Outcome, error)
}

// An Effecter executes the effects of its step's outcomes in order, one per call. After an error made by [Refused], the
// attempt has failed, and the remaining effects are dropped. After any other error, and after a crash, execution starts
// again later at the first effect, so Effect must first check whether the effect is done. Effect can keep notes for
// this check with [store.SaveNote]. If a task is abandoned before its journal is stored, no effect begins. If the
// module of a task is being deleted, the engine completes the running effect of the task, and does not begin the
// effects after it. If the running effect fails, it is not executed again. If such a task was interrupted, or waits for
// its retry, at most the first effect of its outcome is executed again.
type Effecter interface {
	Effect(ctx context.Context, t Task, e Effect) error
}

// An Applier writes an outcome to the store, in the transaction that ends the task, and returns
// additional facts. An error of Apply rolls back the writes of Apply and makes the attempt fail.
type Applier interface {
	Apply(tx *store.Tx, t Task, out Outcome) ([]graph.Fact, error)
}

// A FanOuter returns the items for which its node is repeated. Items is called in the transaction that creates the
// fan-out. The result note is stored in the field FanOut.Note of the task, where End finds it. An error of Items rolls
// back the writes of Items and makes the attempt fail.
type FanOuter interface {
	Items(tx *store.Tx, t Task) (items []graph.Item, note json.RawMessage, err error)
}

// An Ender returns additional facts when the fan-out of its node ends. End is called in the
// transaction that ends the fan-out, even for an empty fan-out. The parameter facts has the facts of
// the items, except items for which the fan-out did not wait. An error of End rolls back the writes
// of End and makes the attempt fail.
type Ender interface {
	End(tx *store.Tx, t Task, facts []graph.Fact) ([]graph.Fact, error)
}

// A Preparer does work before the fan-out of its node is created. ApplyPrepared writes the outcome of Prepare to the
// store, as Apply writes the outcomes of Do. A task that processes only one item, without the fan-out, is not prepared.
type Preparer interface {
	Prepare(ctx context.Context, t Task) (Outcome, error)
	ApplyPrepared(tx *store.Tx, t Task, out Outcome) error
}

// A Skipper is notified when a person skips a task of its node, or an item of its node's fan-out,
// even if the task is held or the item is in quarantine. Skipped is called in the transaction that
// skips the task, and must write the records for which other tasks wait. For example, a skipped
// Synchronization marks its binding as synchronized, because the events of the binding wait for that.
type Skipper interface {
	Skipped(tx *store.Tx, t Task) error
}

// Refused marks err as the final response to an effect. A refused effect is not retried; instead,
// the step must run again.
func Refused(err error) error { return &refusal{err} }

// IsRefused reports whether Refused has marked err.
func IsRefused(err error) bool {
	_, refused := errors.AsType[*refusal](err)
	return refused
}

type refusal struct{ err error }

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// guard calls a method of n's step. guard returns a panic as an error.
func guard(n *graph.Node, part string, call func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s of node %s panicked: %v\n%s", part, n.ID, p, debug.Stack())
		}
	}()
	return call()
}
