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

// Enabled says whether the program is built with failpoints.
const Enabled = true

// armed returns the function that Reach calls with the reached place. If the place is that of [Variable], the returned
// function counts the call. The returned function reports whether the process must die now.
var armed = sync.OnceValue(func() func(place string) bool {
	place, nth, times := os.Getenv(Variable), int64(1), atomic.Int64{}
	if parts := strings.Split(place, ":"); len(parts) == 3 {
		place = parts[0] + ":" + parts[1]
		nth, _ = strconv.ParseInt(parts[2], 10, 64) // an invalid number is 0, so the process never dies
	}
	return func(at string) bool { return at == place && times.Add(1) == nth }
})

// Reach kills the process with SIGKILL if [Variable] names the place part:at, and the process has reached the place as
// often as Variable says.
func Reach(part, at string) {
	if armed()(part + ":" + at) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // do nothing more until the signal arrives
	}
}
