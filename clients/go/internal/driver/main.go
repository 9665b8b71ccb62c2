// Command driver does what the tests of the repository tell it, through the library's public functions: one JSON object per
// line in, one per line out. See clients/DRIVER.md.
package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/toolgate/toolgate/clients/go"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

func main() {
	driver := &driver{
		out: json.NewEncoder(os.Stdout), clients: map[string]*toolgate.Client{}, running: map[int64]*command{},
	}
	if err := driver.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "driver:", err)
		os.Exit(1)
	}
}

// driver holds what commands have made for others.
type driver struct {
	outMutex sync.Mutex
	out      *json.Encoder

	mutex   sync.Mutex
	clients map[string]*toolgate.Client
	// What runs, by the ids of the commands.
	running map[int64]*command
}

// command is one that runs.
type command struct {
	driver *driver
	line   []byte
	ID     int64  `json:"id"`
	Do     string `json:"do"`
	Client string `json:"client"`

	ctx  context.Context
	stop context.CancelFunc
	// Closed when it has ended.
	ended chan struct{}
	// Set by `stop`: the end is a good one then.
	stopped bool
	// What it executes, once that has begun.
	execution chan *toolgate.Execution
	// What the command waits for, by the id of a prompt or an invocation.
	waiting map[string]any
}

// fields are what a report says beside the id.
type fields map[string]any

func (d *driver) read(input io.Reader) error {
	lines := bufio.NewReader(input)
	var commands sync.WaitGroup
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 1 {
			switch command := d.begin(line); {
			case command == nil:
			case command.Do == "connect":
				// The next commands already need the client.
				command.run()
			default:
				commands.Go(command.run)
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	d.mutex.Lock()
	for _, client := range d.clients {
		commands.Go(func() { _ = client.Close() })
	}
	for _, command := range d.running {
		command.stop()
	}
	d.mutex.Unlock()
	commands.Wait()
	return nil
}

// begin registers a command, so that those after it find it.
func (d *driver) begin(line []byte) *command {
	command := &command{
		driver: d, line: line, waiting: map[string]any{}, ended: make(chan struct{}),
		execution: make(chan *toolgate.Execution, 1),
	}
	command.ctx, command.stop = context.WithCancel(context.Background())
	if err := json.Unmarshal(line, command); err != nil {
		d.report(command.ID, fields{"error": fields{"code": "INVALID_ARGUMENT", "message": err.Error()}})
		return nil
	}
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.running[command.ID] = command
	return command
}

func (c *command) run() {
	defer c.stop()
	defer close(c.ended)
	perform, known := commands[c.Do]
	var done fields
	err := error(&toolgate.Error{Code: codes.InvalidArgument, Message: "no such command: " + c.Do})
	if known {
		done, err = perform(c)
	}
	c.driver.mutex.Lock()
	delete(c.driver.running, c.ID)
	stopped := c.stopped
	c.driver.mutex.Unlock()
	if err != nil && !stopped {
		c.report(fields{"error": describe(err)})
		return
	}
	if done == nil {
		done = fields{}
	}
	c.report(fields{"done": done})
}

func (c *command) report(what fields) { c.driver.report(c.ID, what) }

func (d *driver) report(id int64, what fields) {
	what["id"] = id
	d.outMutex.Lock()
	defer d.outMutex.Unlock()
	if err := d.out.Encode(what); err != nil {
		fmt.Fprintln(os.Stderr, "driver: a report cannot be written:", err)
	}
}

// describe makes the report of an error: what the service said, or that it was none of the service.
func describe(err error) fields {
	var failure *toolgate.Error
	if !errors.As(err, &failure) {
		return fields{"code": "UNKNOWN", "message": err.Error()}
	}
	report := fields{"code": failure.CodeName(), "message": failure.Message}
	if failure.Reason != "" {
		report["reason"] = failure.Reason
	}
	return report
}

// arguments reads the fields of a command. What cannot be understood is an invalid argument.
func (c *command) arguments(into any) error {
	if err := json.Unmarshal(c.line, into); err != nil {
		return &toolgate.Error{Code: codes.InvalidArgument, Message: err.Error()}
	}
	return nil
}

func (c *command) client() (*toolgate.Client, error) {
	c.driver.mutex.Lock()
	defer c.driver.mutex.Unlock()
	client := c.driver.clients[c.Client]
	if client == nil {
		return nil, &toolgate.Error{Code: codes.InvalidArgument, Message: "no such client: " + c.Client}
	}
	return client, nil
}

// other finds a command that runs.
func (c *command) other(id int64) (*command, error) {
	c.driver.mutex.Lock()
	defer c.driver.mutex.Unlock()
	if other := c.driver.running[id]; other != nil {
		return other, nil
	}
	return nil, &toolgate.Error{Code: codes.NotFound, Message: fmt.Sprintf("command %d does not run", id)}
}

// wait registers what waits under a name, and find finds it.
func (c *command) wait(name string, what any) (forget func()) {
	c.driver.mutex.Lock()
	defer c.driver.mutex.Unlock()
	c.waiting[name] = what
	return func() {
		c.driver.mutex.Lock()
		defer c.driver.mutex.Unlock()
		delete(c.waiting, name)
	}
}

func find[T any](c *command, name string) (T, error) {
	c.driver.mutex.Lock()
	defer c.driver.mutex.Unlock()
	found, ok := c.waiting[name].(T)
	if !ok {
		return found, &toolgate.Error{Code: codes.NotFound, Message: "nothing waits under " + name}
	}
	return found, nil
}

func encode(message proto.Message) (string, error) {
	binary, err := proto.Marshal(message)
	return base64.StdEncoding.EncodeToString(binary), err
}

// decode reads a message of the contract; none is the empty one.
func decode(text string, into proto.Message) error {
	binary, err := base64.StdEncoding.DecodeString(text)
	if err == nil {
		err = proto.Unmarshal(binary, into)
	}
	if err != nil {
		return &toolgate.Error{Code: codes.InvalidArgument, Message: err.Error()}
	}
	return nil
}

func encodeAll[T any](list []T, message func(T) proto.Message) ([]string, error) {
	texts := make([]string, len(list))
	for i, one := range list {
		text, err := encode(message(one))
		if err != nil {
			return nil, err
		}
		texts[i] = text
	}
	return texts, nil
}
