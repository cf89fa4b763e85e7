//go:build failpoint

package workflow

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"addon-operator/workflow/graph"
)

// failpointVariable says where the process kills itself: "node:claimed", when
// the claim is durable and the step has not begun, "node:effect", when an effect
// is to be done next, or "node:done", when the step and its effects are done and
// the transition is not made. With ":2" behind it, it does so at the second time it
// comes there.
const failpointVariable = "ADDON_OPERATOR_FAILPOINT"

// armed returns a function that reports whether a place is where the process is
// to die now.
var armed = sync.OnceValue(func() func(place string) bool {
	place, nth, times := os.Getenv(failpointVariable), int64(1), atomic.Int64{}
	if parts := strings.Split(place, ":"); len(parts) == 3 {
		place = parts[0] + ":" + parts[1]
		nth, _ = strconv.ParseInt(parts[2], 10, 64) // of no number, 0, which is never reached
	}
	return func(at string) bool { return at == place && times.Add(1) == nth }
})

// failpoint kills the process with SIGKILL if a test wants it to die here.
func failpoint(node graph.NodeID, at string) {
	if armed()(string(node) + ":" + at) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // it may take a moment
	}
}
