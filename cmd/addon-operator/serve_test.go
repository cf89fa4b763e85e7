package main

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"
	"time"
)

func TestAStartWaitsForThePortOfThePreviousProcess(t *testing.T) {
	t.Parallel()
	previous, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(100*time.Millisecond, func() { _ = previous.Close() })
	l, err := listenPublic(t.Context(), previous.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func TestAStartDoesNotWaitForAPortWhenItIsStopped(t *testing.T) {
	t.Parallel()
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	l, err := listenPublic(ctx, other.Addr().String())
	if l != nil || !errors.Is(err, syscall.EADDRINUSE) && !errors.Is(err, context.Canceled) {
		t.Errorf("listener %v, error %v", l, err)
	}
}
