package workflow

// A Moment is a point in an attempt. A crash before a Moment has different consequences from a
// crash after it.
type Moment string

// Moments, in the order in which an attempt reaches them.
const (
	// AtClaimed is reached when the claim is committed and the step has not begun.
	AtClaimed Moment = "claimed"
	// AtEnded is reached when the step has returned its outcome, and before any part of the outcome
	// is stored. After a crash at this moment, the step runs again.
	AtEnded Moment = "ended"
	// AtEffect is reached before each effect of an outcome that is in the journal.
	AtEffect Moment = "effect"
	// AtDone is reached when the step and all its effects are done, and before the transition is
	// committed.
	AtDone Moment = "done"
)
