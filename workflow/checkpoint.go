package workflow

// A Moment is a point of an attempt. After each moment, a crash has other consequences.
type Moment string

// Moments, in the order in which an attempt reaches them.
const (
	// AtClaimed is reached when the claim is committed and the step has not begun.
	AtClaimed Moment = "claimed"
	// AtEnded is reached when the step has returned its outcome and nothing of it is stored. After
	// a crash the step runs again.
	AtEnded Moment = "ended"
	// AtEffect is reached before each effect of an outcome that is in the journal.
	AtEffect Moment = "effect"
	// AtDone is reached when the step and all its effects are done and the transition is not
	// committed.
	AtDone Moment = "done"
)
