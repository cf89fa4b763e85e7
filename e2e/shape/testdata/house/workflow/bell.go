// Package workflow has two files that use each other.
package workflow

// A Bell has four methods, in two files.
type Bell struct {
	step Step
	end  func() error
}

// New returns a bell.
func New(step Step, end func() error) *Bell { return &Bell{step, end} }

// Ring is where the path begins.
func (b *Bell) Ring() {
	ring(func() { b.call() })
	lonely()
}

func (b *Bell) call() { ring(b.answer) }

func (b *Bell) answer() {
	b.do()
}
