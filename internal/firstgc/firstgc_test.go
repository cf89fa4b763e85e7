package firstgc

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// mode is an environment variable. If its value is a key of the map programs, the test binary runs this program.
const mode = "FIRSTGC_PROGRAM"

// programs maps each property to a function that checks it. Each check runs in a process of its own, because a process
// has only one first collection.
var programs = map[string]func() error{
	"no collection while the heap is small": func() error {
		live := allocate(Heap / 2)
		defer runtime.KeepAlive(live)
		if n := collections(); n != 0 {
			return fmt.Errorf("%d collections with %d bytes in use", n, len(live))
		}
		return nil
	},
	"collection of a large heap": func() error {
		for range 4 {
			allocate(Heap / 2)
		}
		if collections() == 0 {
			return fmt.Errorf("no collection after %d bytes", 2*Heap)
		}
		return nil
	},
	"the default growth after the first collection": func() error { return hasGrowth(100) },
	"the growth of an earlier call": func() error {
		SetGrowth(50)
		return hasGrowth(50)
	},
	"the growth of a later call": func() error {
		if err := hasGrowth(100); err != nil {
			return err
		}
		SetGrowth(50)
		return isGrowth(50)
	},
}

func TestFirstCollection(t *testing.T) {
	if name, ok := os.LookupEnv(mode); ok {
		if err := programs[name](); err != nil {
			t.Error(err)
		}
		return
	}
	for name := range programs {
		t.Run(name, func(t *testing.T) { runAlone(t, mode+"="+name) })
	}
}

func TestGOGCHasPrecedence(t *testing.T) {
	if _, ok := os.LookupEnv(mode); !ok {
		runAlone(t, mode+"=", "GOGC=200")
		return
	}
	SetGrowth(50)
	if err := isGrowth(200); err != nil {
		t.Error(err)
	}
}

// runAlone runs the calling test in a new process with the additional environment variables env.
func runAlone(t *testing.T, env ...string) {
	t.Helper()
	name, _, _ := bytes.Cut([]byte(t.Name()), []byte("/"))
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+string(name)+"$")
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// hasGrowth runs a garbage collection, and waits until the package has set GOGC after the first collection. hasGrowth
// returns an error if GOGC then differs from want.
func hasGrowth(want int) error {
	runtime.GC()
	for !collectorStarted() {
		time.Sleep(time.Millisecond) // the cleanup runs on a goroutine of the Go runtime, some time after the collection
	}
	return isGrowth(want)
}

// isGrowth sets GOGC to want, and returns an error if GOGC had another value before.
func isGrowth(want int) error {
	if is := debug.SetGCPercent(want); is != want {
		return fmt.Errorf("growth of %d percent, want %d", is, want)
	}
	return nil
}

func collectorStarted() bool {
	collector.Lock()
	defer collector.Unlock()
	return collector.started
}

// allocate returns n new bytes, and writes to each of them.
func allocate(n int) []byte { return bytes.Repeat([]byte{1}, n) }

// collections returns the number of garbage collections in this process so far.
func collections() uint32 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.NumGC
}
