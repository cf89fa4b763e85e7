package workflow

import "example.org/house/store"

// A Step is implemented by a type of another package.
type Step interface{ Do() }

var _ Step = store.Door{}

func (b *Bell) do() {
	b.step.Do()
	_ = b.end()
}

func ring(answer func()) { answer() }
