//go:build failpoint

package failpoint

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// Enabled reports whether the program has failpoints.
const Enabled = true

// armed returns a function that counts the calls for the place in [Variable]. It reports whether the process must die
// at this call.
var armed = sync.OnceValue(func() func(place string) bool {
	place, nth, times := os.Getenv(Variable), int64(1), atomic.Int64{}
	if parts := strings.Split(place, ":"); len(parts) == 3 {
		place = parts[0] + ":" + parts[1]
		nth, _ = strconv.ParseInt(parts[2], 10, 64) // an invalid number is 0, which is never reached
	}
	return func(at string) bool { return at == place && times.Add(1) == nth }
})

// Reach kills the process with SIGKILL if [Variable] names the place part:at and this is the right visit of the
// place.
func Reach(part, at string) {
	if armed()(part + ":" + at) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal may take a moment
	}
}
