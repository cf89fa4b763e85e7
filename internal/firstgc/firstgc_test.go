package firstgc

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// mode is the variable that makes the test binary run one of the programs.
const mode = "FIRSTGC_PROGRAM"

// programs run in a process of their own, because a process has only one first collection. Their names say what they show.
var programs = map[string]func(t *testing.T){
	"no collection while the heap is small": func(t *testing.T) {
		live := allocate(Heap / 2)
		if n := collections(); n != 0 {
			t.Errorf("%d collections with %d bytes in use", n, len(live))
		}
		runtime.KeepAlive(live)
	},
	"collection of a large heap": func(t *testing.T) {
		for range 4 {
			allocate(Heap / 2)
		}
		if collections() == 0 {
			t.Errorf("no collection after %d bytes", 2*Heap)
		}
	},
	"the default growth after the first collection": func(t *testing.T) { checkGrowth(t, 100) },
	"the growth of an earlier call": func(t *testing.T) {
		SetGrowth(50)
		checkGrowth(t, 50)
	},
	"the growth of a later call": func(t *testing.T) {
		checkGrowth(t, 100)
		SetGrowth(50)
		if is := debug.SetGCPercent(-1); is != 50 {
			t.Errorf("growth of %d percent, want 50", is)
		}
	},
}

func TestFirstCollection(t *testing.T) {
	if name, ok := os.LookupEnv(mode); ok {
		programs[name](t)
		return
	}
	for name := range programs {
		t.Run(name, func(t *testing.T) { runProgram(t, mode+"="+name) })
	}
}

func TestGOGCHasPrecedence(t *testing.T) {
	if _, ok := os.LookupEnv(mode); !ok {
		runProgram(t, mode+"=", "GOGC=200")
		return
	}
	SetGrowth(50)
	if is := debug.SetGCPercent(-1); is != 200 {
		t.Errorf("growth of %d percent, want that of GOGC", is)
	}
}

// runProgram runs the calling test in another process.
func runProgram(t *testing.T, env ...string) {
	name, _, _ := bytes.Cut([]byte(t.Name()), []byte("/"))
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+string(name)+"$")
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// checkGrowth checks the growth after the first collection.
func checkGrowth(t *testing.T, want int) {
	runtime.GC()
	for !collectorStarted() {
		time.Sleep(time.Millisecond) // cleanups run on a goroutine of the runtime
	}
	if is := debug.SetGCPercent(want); is != want {
		t.Errorf("growth of %d percent, want %d", is, want)
	}
}

func collectorStarted() bool {
	collector.Lock()
	defer collector.Unlock()
	return collector.started
}

// allocate returns n bytes that have been written.
func allocate(n int) []byte { return bytes.Repeat([]byte{1}, n) }

// collections returns the number of collections of this process.
func collections() uint32 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.NumGC
}
