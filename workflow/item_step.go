package workflow

// An ItemStep does one item of its node's fan-out in each attempt, such as one hook of a module. A step
// that embeds one changes parts of it.
type ItemStep interface {
	Step
	Effecter
	Applier
	FanOuter
	Skipper
	RateLimiter
	Gater
}
