package io.toolgate;

import io.toolgate.v1.HostRunSubagent;

/** Runs subagents for the tool {@code task}. */
@FunctionalInterface
public interface SubagentRunner {
    /**
     * Runs a subagent. Its calls name the task's call as their parent ({@link ToolCall#parent}) and the task's session as
     * theirs ({@link ToolCall#session}). The thread is interrupted when the task is cancelled.
     *
     * @param task what the subagent is to do
     * @param invocation the call of {@code task}
     * @return the subagent's last text
     * @throws Exception to fail: its message is the text for the model
     */
    ToolOutput run(HostRunSubagent task, Invocation invocation) throws Exception;
}
