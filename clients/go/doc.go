// Package toolgate is the client of Toolgate, the service that runs the tools of an AI agent behind one gRPC contract
// with a person in the loop.
//
// A [Client] lists tools ([Client.Tools]), executes them ([Client.Run], [Client.Execute]), answers what the service asks
// a person ([Client.Approve]), lends functions of the program as tools ([Client.Host]) and reads what calls have printed
// ([Client.Output]). For front ends it shows and changes the files of a workspace ([Client.Files]), draws terminals
// ([Client.Terminal]), reaches what programs listen on ([Client.OpenPort]), opens workspaces ([Client.OpenWorkspace]) and
// reads what MCP servers have beside tools ([Client.MCP]).
//
// # Lost connections
//
// A call is a record of the service and outlives the connection that started it. An [Execution] whose stream breaks
// takes it up again after the last event that it delivered: no event is skipped and none comes twice. Approvers and hosts
// open their streams again in the same way, and reads of outputs and files go on at the byte that they had reached. A
// change of a file is sent again, and made once. What fails for longer than [WithReconnectTimeout] ends with the last error.
//
// # Cancellation
//
// The end of the context of [Client.Execute] cancels the call: the service is told, its programs are gone, and the
// execution ends with the call's result. This is the library's doing, not the connection's, so that a broken connection
// does not cancel. [WithOnDisconnect] chooses otherwise.
//
// # Errors
//
// An RPC that fails gives an [*Error], with the gRPC code and the reason that the service names. A call that fails is no
// error: its [Result] says so, in words for the model, and [Result.Err] makes a [*CallError] of it where that is handier.
package toolgate
