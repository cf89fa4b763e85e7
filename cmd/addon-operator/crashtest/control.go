// Package crashtest runs the modules of a user on a control plane, kills the operator before and after each step, and
// compares the results with the results of undisturbed runs. Package crashtest implements the command
// "test --crash-every-step".
//
// A *round* is one run of the operator, from an empty control plane until nothing is left to do, with one kill at a
// *target*: a [workflow.Moment] of a step, such as before the step begins. The operator is a child process with a
// *control*: a socket on which the operator reports each moment and waits for permission to continue. A *finding* is a
// target for which the result of the round differs from the result of the undisturbed runs.
package crashtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// controlFD is the file descriptor of the control in the child process.
const controlFD = 3

// message is a line that the operator writes to its control.
type message struct {
	// Begun is true in the message that reports the start of the operator, after it has resumed pending work and enqueued
	// the new work.
	Begun   bool          `json:"begun,omitempty"`
	Node    graph.NodeID  `json:"node,omitempty"`
	Subject graph.Subject `json:"subject,omitzero"`
	// At is set if the operator waits for permission to continue.
	At workflow.Moment `json:"at,omitempty"`
	// State is set in a message about a history record, such as the end of an attempt. Error is set if an attempt has
	// failed.
	State store.State `json:"state,omitempty"`
	Error string      `json:"error,omitempty"`
}

// A Control is the connection of an operator to the command "test" that started it. If the connection
// ends, the process kills itself, because its results are no longer needed.
type Control struct {
	mu      sync.Mutex // locked while a message is sent and its answer is awaited
	conn    net.Conn
	allowed chan struct{}
}

// OpenControl returns the control of this process. OpenControl fails unless the parent of this
// process created the inherited socket. So a deployment cannot open a control by mistake: a
// container inherits no socket, and its first process has no parent.
func OpenControl() (*Control, error) {
	const advice = "only the command test starts an operator with a control; use the command start"
	unix.CloseOnExec(controlFD) // hooks must not inherit the socket
	peer, err := unix.GetsockoptUcred(controlFD, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return nil, fmt.Errorf("file descriptor %d: %w; %s", controlFD, err, advice)
	}
	if int(peer.Pid) != os.Getppid() {
		return nil, fmt.Errorf("the socket at file descriptor %d is not of the parent process; %s", controlFD, advice)
	}
	file := os.NewFile(controlFD, "control")
	defer file.Close() // FileConn duplicates the descriptor
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, fmt.Errorf("open the control: %w", err)
	}
	c := &Control{conn: conn, allowed: make(chan struct{})}
	go c.listen()
	return c, nil
}

// listen receives the permissions to continue, and kills this process when the connection ends.
func (c *Control) listen() {
	for permission := make([]byte, 1); ; {
		if _, err := c.conn.Read(permission); err != nil {
			killSelf()
		}
		c.allowed <- struct{}{}
	}
}

func killSelf() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // do not return before the signal is delivered
}

// Checkpoint reports that an attempt of the task t has reached a moment, and returns when the operator may continue.
func (c *Control) Checkpoint(t workflow.Task, at workflow.Moment) {
	c.send(message{Node: graph.NodeID(t.Node), Subject: t.Subject, At: at})
}

// Recorded reports a history record, such as the end of an attempt.
func (c *Control) Recorded(r store.Record) {
	c.send(message{Node: graph.NodeID(r.Node), Subject: r.Subject, State: r.State, Error: r.Error})
}

// Begun reports that the operator has started.
func (c *Control) Begun() { c.send(message{Begun: true}) }

// send writes m. If m reports a moment, send waits for the permission to continue.
func (c *Control) send(m message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := json.NewEncoder(c.conn).Encode(m); err != nil {
		killSelf()
	}
	if m.At != "" {
		<-c.allowed
	}
}

// newControl returns both ends of a control: the end of this process, and the end for the child.
func newControl() (ours net.Conn, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make the control of the operator: %w", err)
	}
	file := os.NewFile(uintptr(fds[0]), "control")
	theirs = os.NewFile(uintptr(fds[1]), "control of the operator")
	ours, err = net.FileConn(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return ours, theirs, nil
}
