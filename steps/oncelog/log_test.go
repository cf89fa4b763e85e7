package oncelog_test

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"addon-operator/steps/oncelog"
)

func TestAMessageIsLoggedOnceWithItsFirstLevel(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := oncelog.New(zerolog.New(&out))
	log.Once(zerolog.WarnLevel, "a")
	log.Once(zerolog.ErrorLevel, "a")
	log.Once(zerolog.InfoLevel, "b")
	log.Once(zerolog.WarnLevel, "a")
	log.Warn().Msg("a")
	log.Warn().Msg("a")
	want := `{"level":"warn","message":"a"}
{"level":"info","message":"b"}
{"level":"warn","message":"a"}
{"level":"warn","message":"a"}
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", &out, want)
	}
}

func TestAMessageOfSeveralGoroutinesIsLoggedOnce(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := oncelog.New(zerolog.New(&out))
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { log.Once(zerolog.WarnLevel, "a") })
	}
	all.Wait()
	if n := strings.Count(out.String(), "\n"); n != 1 {
		t.Errorf("it was logged %d times", n)
	}
}
