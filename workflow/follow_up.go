package workflow

import "time"

// A followUp is work that a transition leaves to a later transition. A followUp begins after the
// commit of the earlier transition, or at its due time. If the operator crashes before a followUp
// begins, the followUp is lost. So the engine must do the same work at startup. Two kinds of work
// need no repetition: if wakeFailedTasks is lost, the tasks are retried after their delays, and if
// withdrawEvents is lost, the events are delivered.
type followUp struct {
	work  work
	queue string    // queue of the work; deferredTasks for work about tasks in no queue
	due   time.Time // zero means at once; a followUp with a due time replaces the one that waits for the same queue

	module string      // for openLanesOf
	events *Withdrawal // for withdrawEvents
}

// deferredTasks is the queue of follow-ups about tasks that are in no queue.
const deferredTasks = ""

// work is a kind of followUp.
type work int

// Kinds of work for later transitions.
const (
	claimQueueHead      work = iota // claim the first task of the queue
	bringDueTasks                   // put the deferred tasks that are due into their queues
	bringExpeditedTasks             // put the expedited tasks into their queues
	recheckDeferred                 // put the tasks that their rate limits no longer defer into their queues
	openLanes                       // open the lanes whose tasks are no longer blocked
	openLanesOf                     // open the lanes of one module whose tasks are no longer blocked
	wakeFailedTasks                 // retry failed tasks now
	continuePreparation             // continue an incomplete preparation
	withdrawEvents                  // remove the remaining events of a withdrawal
)
