package inspect

import "time"

// A Pattern is a kind of finding. A finding about a problem that matches no pattern has the [Kind] of
// the problem as its pattern.
type Pattern string

// Patterns about the whole operator or about many tasks.
const (
	SecondOperator   Pattern = "second operator"   // the operator waits for the Lease, which another operator holds
	UnavailableLease Pattern = "unavailable lease" // the operator cannot read or acquire the Lease
	OtherCluster     Pattern = "other cluster"     // the volume had a store of another cluster
	LittleRoom       Pattern = "disk nearly full"  // the disk may have too little free space for a compaction
	WrongClock       Pattern = "clock"             // clocks differ, or times of records are in the future or not in order
	Crash            Pattern = "crash"             // no operator runs, and the last one crashed during a task
	CrashLoop        Pattern = "crash loop"        // the operator crashed again and again
	LostWork         Pattern = "lost work"         // the store has no data for a span of time
	ValueLoop        Pattern = "value loop"        // hooks change values in each pass of a run
	EventStorm       Pattern = "event storm"       // many events of one binding wait
)

// isLoad reports whether p is about work that accumulates or repeats. A failing step is often the
// cause of such work.
func (p Pattern) isLoad() bool { return p == ValueLoop || p == EventStorm }

// A Finding is a fault with its evidence and its fix.
type Finding struct {
	Pattern Pattern `json:"pattern"`
	// Text describes the fault in one sentence.
	Text string `json:"text"`
	// In a [Status], Since is the time of the oldest evidence; in a [Diagnosis], Since is zero. Crashes are an
	// exception: if starts in the last hour followed a crash, Since is the time of the first of these starts in both
	// snapshots.
	Since    time.Time   `json:"since,omitzero"`
	Evidence []CauseStep `json:"evidence,omitempty"`
	// Fix says what a person must do first. Advice has commands that show more, and commands to use
	// after the fix or instead of it.
	Fix    string   `json:"fix,omitempty"`
	Advice []Advice `json:"advice,omitempty"`
}
