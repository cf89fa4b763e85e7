package workflow

// A Moment is a part of an attempt after which a crash has consequences of its own.
type Moment string

// The moments, in the order in which an attempt reaches them.
const (
	// AtClaimed is reached when the claim is durable and the step has not begun.
	AtClaimed Moment = "claimed"
	// AtEnded is reached when the step has returned an outcome of which nothing is stored. After a
	// crash the step runs again.
	AtEnded Moment = "ended"
	// AtEffect is reached before each effect of an outcome that is in the journal.
	AtEffect Moment = "effect"
	// AtDone is reached when the step and all its effects are done, and the transition is not committed.
	AtDone Moment = "done"
)
