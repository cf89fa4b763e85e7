package inspect

import "time"

// A Pattern is a kind of finding. A finding about a problem without a pattern has the [Kind] of the
// problem instead.
type Pattern string

// Patterns about the whole operator or about many tasks.
const (
	SecondOperator Pattern = "second operator"  // another operator holds the Lease
	OtherCluster   Pattern = "other cluster"    // the volume had a store of another cluster
	LittleRoom     Pattern = "disk nearly full" // a compaction needs more free space than there is
	WrongClock     Pattern = "clock"            // records have times in the future, or a start is older than an earlier start
	Crash          Pattern = "crash"            // the operator of a stopped store crashed
	CrashLoop      Pattern = "crash loop"       // the operator crashed again and again
	LostWork       Pattern = "lost work"        // the store has no data for a span of time
	ValueLoop      Pattern = "value loop"       // hooks change values at each run
	EventStorm     Pattern = "event storm"      // many events of one binding wait
)

// isLoad reports whether p is about work that accumulates or repeats. The cause is often a problem
// of a step.
func (p Pattern) isLoad() bool { return p == ValueLoop || p == EventStorm }

// A Finding is a fault with its evidence and its fix.
type Finding struct {
	Pattern Pattern `json:"pattern"`
	// Text describes the fault in one sentence.
	Text string `json:"text"`
	// Since is set in a [Status], and for a crash loop. It is the time of the oldest evidence, or
	// of the first crash.
	Since    time.Time   `json:"since,omitzero"`
	Evidence []CauseStep `json:"evidence,omitempty"`
	// Fix says what a person must do first. Advice are commands that show more, and commands to use
	// after the fix.
	Fix    string   `json:"fix,omitempty"`
	Advice []Advice `json:"advice,omitempty"`
}
