package workflow

// An ItemStep processes one item of its node's fan-out in each attempt, such as one hook of a
// module. Other steps embed an ItemStep, and replace some of its methods.
type ItemStep interface {
	Step
	Effecter
	Applier
	FanOuter
	Skipper
	RateLimiter
	Gater
}
