//go:build !failpoint

package failpoint

// Enabled reports whether the program has failpoints.
const Enabled = false

// Reach does nothing.
func Reach(part, at string) {}
