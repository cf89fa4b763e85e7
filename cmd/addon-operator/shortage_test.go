package main

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"addon-operator/store"
)

func TestAShortageThatComesAndGoesIsLoggedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var now atomic.Pointer[store.Shortage]
		changed := make(chan struct{}, 1)
		full, first, room := 0, 0, 0
		l := shortageLog{
			changed: changed, shortage: now.Load, room: func() { room++ },
			full: func(_ *store.Shortage, isFirst bool) {
				if full++; isFirst {
					first++
				}
			},
		}
		go l.run(ctx)
		set := func(s *store.Shortage) {
			now.Store(s)
			changed <- struct{}{}
			synctest.Wait()
		}
		want := func(wantFull, wantFirst, wantRoom int) {
			t.Helper()
			if full != wantFull || first != wantFirst || room != wantRoom {
				t.Errorf("logged were %d shortages, %d of them new, and %d times room, want %d, %d, %d", full, first, room, wantFull, wantFirst, wantRoom)
			}
		}
		shortage := &store.Shortage{Err: errors.New("no space left for the store")}
		for range 20 {
			set(shortage)
			time.Sleep(20 * time.Millisecond)
			set(nil)
			time.Sleep(20 * time.Millisecond)
		}
		want(1, 1, 0)
		set(shortage)
		time.Sleep(2*logAgain + time.Second)
		synctest.Wait()
		want(3, 1, 0)
		set(nil)
		time.Sleep(roomLasts + time.Second)
		synctest.Wait()
		want(3, 1, 1)
		set(shortage)
		want(4, 2, 1)
	})
}
