package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"addon-operator/cmd/addon-operator/settings"
	"addon-operator/store"
)

func TestALogThatNobodyReadsDoesNotHoldUpCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := store.OpenMemory(new(store.Memory), store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		reader, stderr := io.Pipe()
		notices, err := newLog(settings.Settings{LogType: "json", LogLevel: "info"}, stderr)
		if err != nil {
			t.Fatal(err)
		}
		buffer := newLogBuffer(stderr, func(lines int) { notices.Warn().Int("lines", lines).Msg("log lines dropped") })
		log, err := newLog(settings.Settings{LogType: "json", LogLevel: "info"}, buffer)
		if err != nil {
			t.Fatal(err)
		}
		const commits = 100
		began := time.Now()
		for i := range commits {
			if err := db.Update(func(tx *store.Tx) error {
				tx.OnCommit(func() { log.Info().Int("commit", i).Msg(strings.Repeat("x", 64<<10)) })
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("the commits took %s", took)
		}
		lines := make(chan []string)
		go func() {
			var read []string
			scanner := bufio.NewScanner(reader)
			scanner.Buffer(nil, 1<<20)
			for scanner.Scan() {
				read = append(read, scanner.Text())
			}
			lines <- read
		}()
		synctest.Wait()
		log.Info().Msg("read again")
		buffer.close()
		log.Info().Msg("the end")
		_ = stderr.Close()
		read := <-lines
		written, dropped := 0, 0
		for _, line := range read {
			if strings.Contains(line, `"commit":`) {
				written++
			}
			if _, rest, ok := strings.Cut(line, `"lines":`); ok {
				_, _ = fmt.Sscan(rest, &dropped)
			}
		}
		if written == 0 || dropped == 0 || written+dropped != commits {
			t.Errorf("of %d lines %d were written, the log says that %d were dropped", commits, written, dropped)
		}
		if n := len(read); n < 2 || !strings.Contains(read[n-2], "read again") || !strings.Contains(read[n-1], "the end") {
			t.Error("the last lines are not written, or not in order")
		}
	})
}

func TestALogThatIsReadSlowlyLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader, stderr := io.Pipe()
		buffer := newLogBuffer(stderr, func(lines int) { t.Errorf("%d lines were dropped", lines) })
		read := make(chan int64)
		go func() {
			n := int64(0)
			for {
				got, err := io.CopyN(io.Discard, reader, 256<<10)
				if n += got; err != nil {
					break
				}
				time.Sleep(100 * time.Millisecond)
			}
			read <- n
		}()
		line := []byte(strings.Repeat("x", 1023) + "\n")
		for range 8 << 10 {
			_, _ = buffer.Write(line)
		}
		buffer.close()
		synctest.Wait()
		time.Sleep(time.Minute)
		_ = stderr.Close()
		if n := <-read; n != 8<<20 {
			t.Errorf("%d bytes were read", n)
		}
	})
}
