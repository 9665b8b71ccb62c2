package toolgate

import (
	"context"

	toolgatev1 "github.com/toolgate/toolgate/clients/go/gen/toolgate/v1"
)

// TerminalSize is the size of a terminal, in characters.
type TerminalSize struct {
	// Columns is 1 to 500, Rows 1 to 200.
	Columns, Rows int
}

// Terminal is what the terminal of a call shows.
type Terminal struct {
	// Size is its size.
	Size TerminalSize
	// Contents is text and escape sequences that draw it in a terminal of this size that was just reset, at most 3 MiB.
	Contents []byte
	// CursorColumn and CursorRow are where the cursor is, from 0.
	CursorColumn, CursorRow int
	// CursorVisible says whether the cursor is shown.
	CursorVisible bool
	// Title is the title that the programs gave the terminal.
	Title string
	// OutputOffset is how many bytes of the call's output Contents takes into account.
	OutputOffset int64
	// LastSequence is where to go on with [Client.Watch]. Of what it brings, output before OutputOffset is to be skipped.
	LastSequence int64
}

// Terminal returns what the terminal of a running call shows, for who comes to it late or again.
func (c *Client) Terminal(ctx context.Context, callID string) (*Terminal, error) {
	response, err := c.tools.GetTerminal(ctx, &toolgatev1.GetTerminalRequest{CallId: callID})
	if err != nil {
		return nil, err
	}
	return &Terminal{
		Size: newTerminalSize(response.GetSize()), Contents: response.GetContents(),
		CursorColumn: int(response.GetCursorColumn()), CursorRow: int(response.GetCursorRow()),
		CursorVisible: response.GetCursorVisible(), Title: response.GetTitle(),
		OutputOffset: response.GetOutputOffset(), LastSequence: response.GetLastSequence(),
	}, nil
}

func newTerminalSize(size *toolgatev1.TerminalSize) TerminalSize {
	return TerminalSize{int(size.GetColumns()), int(size.GetRows())}
}

// ResizeTerminal changes the size of the terminal of a running call, of which its programs are told. As long as the command
// has not begun, it is the size that it will begin with.
func (c *Client) ResizeTerminal(ctx context.Context, callID string, size TerminalSize) error {
	_, err := c.tools.ResizeTerminal(ctx, &toolgatev1.ResizeTerminalRequest{
		CallId: callID, Size: &toolgatev1.TerminalSize{Columns: int32(size.Columns), Rows: int32(size.Rows)},
	})
	return err
}

// SendSignal sends a signal to a command in the background: to its process group or, in a terminal, to the one in the
// foreground there. It is not repeated after a lost connection: the signal may have been sent.
func (c *Client) SendSignal(ctx context.Context, callID string, signal Signal) error {
	value, err := number[toolgatev1.Signal](signalPrefix, toolgatev1.Signal_value, signal)
	if err != nil {
		return err
	}
	_, err = c.tools.SignalCall(ctx, &toolgatev1.SignalCallRequest{CallId: callID, Signal: value})
	return err
}
