package inspect

import "time"

// A Pattern is a kind of finding. The findings about problems that no pattern explains have the [Kind] of the problem.
type Pattern string

// The patterns that concern the whole operator, or many tasks.
const (
	SecondOperator Pattern = "second operator"  // another operator holds the Lease
	OtherCluster   Pattern = "other cluster"    // the volume had a store of another cluster
	LittleRoom     Pattern = "disk nearly full" // compaction needs more room than there is
	WrongClock     Pattern = "clock"            // records are of the future, or a start is older than the one before it
	Crash          Pattern = "crash"            // the operator of a stopped store crashed
	CrashLoop      Pattern = "crash loop"       // the operator crashed again and again
	LostWork       Pattern = "lost work"        // the store knows nothing of a span
	ValueLoop      Pattern = "value loop"       // hooks change values at each run
	EventStorm     Pattern = "event storm"      // many events of one binding wait
)

// isLoad reports whether p is work that piles up or repeats. A problem of a step is often its cause.
func (p Pattern) isLoad() bool { return p == ValueLoop || p == EventStorm }

// A Finding is a fault with its evidence and its remedy.
type Finding struct {
	Pattern Pattern `json:"pattern"`
	// Text describes the fault in one sentence.
	Text string `json:"text"`
	// Since is the time of the oldest evidence in a [Status], which has no evidence, and of the first crash of a crash loop.
	Since    time.Time   `json:"since,omitzero"`
	Evidence []CauseStep `json:"evidence,omitempty"`
	// Fix says what a person must mend first. Advice are commands that show more, and those that help once it is mended.
	Fix    string   `json:"fix,omitempty"`
	Advice []Advice `json:"advice,omitempty"`
}
