package jq

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/itchyny/gojq"
	"golang.org/x/sys/unix"
)

// MaxMemory is the maximum memory of all helpers together, in bytes.
const MaxMemory = maxHelpers * memoryLimit

const (
	// helperName is the only element of os.Args in a helper.
	helperName = "addon-operator-jq"
	// memoryLimit is the maximum memory of a helper in bytes. If the kernel gives the helper no more memory, the Go
	// runtime ends the helper with the exit status exitMemory.
	memoryLimit = 128 << 20
	// collectAt is the soft memory limit of the Go runtime in a helper, in bytes. Near this limit, the garbage
	// collector runs more often.
	collectAt = 96 << 20
	// addedLimit is the maximum number of bytes that a helper may map in addition to those that it has mapped at its
	// start. One heap arena of 64 MiB is already mapped at the start, and addedLimit is enough for one more. So the
	// heap of a helper has at most memoryLimit bytes.
	addedLimit = 72 << 20
	// largeText is a size in bytes. If the input or the result of a run is larger than largeText, the helper returns
	// memory to the system after the run.
	largeText = 1 << 20
	// maxCached is the maximum number of compiled programs that a helper keeps for further runs.
	maxCached = 64
	// exitMemory is the exit status of a Go program that is out of memory. exitTime is the exit status of a helper
	// whose filter has neither ended in time nor been interrupted.
	exitMemory = 2
	exitTime   = 3
)

// Every executable that imports this package can run as a helper. In a helper, the function main is never called. Go
// initializes packages in the order of their import paths, each after the packages that it imports. So most other
// packages of the operator are not initialized in a helper.
func init() { //nolint:gochecknoinits // every executable that imports the package must be able to run as a helper
	if len(os.Args) == 1 && os.Args[0] == helperName {
		os.Exit(help(os.Stdin, os.Stdout)) //nolint:forbidigo // init must not return, because then main would be called
	}
}

// help reads requests, executes them, and writes the answers. At the end of the requests, it returns the exit status of
// the helper.
func help(in io.Reader, out io.Writer) int {
	if err := limitMemory(); err != nil {
		return 1
	}
	requests, answers := bufio.NewReaderSize(in, 64<<10), bufio.NewWriterSize(out, 64<<10)
	compiled := map[string]*gojq.Code{}
	var program, text []byte
	for {
		var err error
		if program, err = readPart(requests, program); err != nil {
			return 0 // the operator has ended
		}
		if text, err = readPart(requests, text); err != nil {
			return 0
		}
		ctx, cancel := context.WithCancelCause(context.Background()) //nolint:forbidigo // a helper has no other context
		// After maxTime, the filter is interrupted. If the filter is still running when grace has passed as well,
		// because it cannot be interrupted, the helper ends.
		stopTime := afterCPU(maxTime, func() { cancel(errEndless) })
		stopProcess := afterCPU(maxTime+grace, func() { os.Exit(exitTime) }) //nolint:forbidigo // this is the only way to stop the filter
		result, err := answer(ctx, compiled, string(program), text)
		stopTime()
		if err := writeAnswer(answers, result, err); err != nil {
			return 1
		}
		stopProcess()
		cancel(nil)
		if len(text) > largeText || len(result) > largeText {
			text = nil
			debug.FreeOSMemory()
		}
	}
}

// answer runs program with text as the input, and returns the result. The map compiled contains compiled programs by
// their text; answer adds program to this map.
func answer(ctx context.Context, compiled map[string]*gojq.Code, program string, text []byte) (result json.RawMessage, err error) {
	defer func() {
		if thrown := recover(); thrown != nil {
			err = exceeded("the program cannot be run: %v", thrown)
		}
	}()
	code := compiled[program]
	if code == nil {
		filter, err := Compile(program)
		if err != nil {
			return nil, exceeded("%s", err)
		}
		if len(compiled) == maxCached {
			clear(compiled)
		}
		code = filter.code
		compiled[program] = code
	}
	tree, err := NewInput(text).decoded()
	if err != nil {
		return nil, exceeded("%s", err)
	}
	return evaluate(ctx, code, tree)
}

// afterCPU calls fn when this process has used as much CPU time as limit says, counted from this call of afterCPU. If
// stop is called earlier, fn is not called.
func afterCPU(limit time.Duration, fn func()) (stop func()) {
	begun := usedCPU()
	var mu sync.Mutex
	var timer *time.Timer
	stopped := false
	var arm func(left time.Duration)
	arm = func(left time.Duration) {
		timer = time.AfterFunc(left, func() { // a helper uses at most one CPU, so it cannot use up this CPU time earlier
			mu.Lock()
			defer mu.Unlock()
			switch used := usedCPU() - begun; {
			case stopped:
			case used >= limit:
				fn()
			default:
				arm(max(limit-used, time.Millisecond))
			}
		})
	}
	mu.Lock()
	defer mu.Unlock()
	arm(limit)
	return func() {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		timer.Stop()
	}
}

// usedCPU returns the CPU time that this process has used.
func usedCPU() time.Duration {
	var usage unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &usage) // never fails for this argument
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func writeAnswer(w *bufio.Writer, result json.RawMessage, err error) error {
	status, text := byte(statusDone), []byte(result)
	if err != nil {
		failure := (*FilterError)(nil)
		if !errors.As(err, &failure) {
			failure = exceeded("%s", err)
		}
		status = statusFailed
		if text, err = json.Marshal(failure); err != nil {
			return err
		}
	}
	_ = w.WriteByte(status)                                               // Flush returns the first error of all writes
	_, _ = w.Write(binary.BigEndian.AppendUint32(nil, uint32(len(text)))) //nolint:gosec // at most maxResult
	_, _ = w.Write(text)
	return w.Flush()
}

// limitMemory limits the memory of this process, which is a helper.
func limitMemory() error {
	debug.SetMemoryLimit(collectAt)
	mapped, err := mappedMemory()
	if err != nil {
		return err
	}
	limit := unix.Rlimit{Cur: mapped + addedLimit, Max: mapped + addedLimit}
	if err := unix.Setrlimit(unix.RLIMIT_AS, &limit); err != nil {
		return err
	}
	// If the machine nevertheless has too little memory, the kernel kills helpers before it kills the operator.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0o600)
	return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
}

// mappedMemory returns how many bytes this process has mapped. RLIMIT_AS limits this number. The Go runtime maps much
// more than it uses.
func mappedMemory() (uint64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if rest, found := strings.CutPrefix(line, "VmSize:"); found {
			kib, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("the kernel does not report the memory of this process")
}
