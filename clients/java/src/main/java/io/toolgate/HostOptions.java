package io.toolgate;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Says what is lent, and as whom. */
public final class HostOptions {
    private final String name;
    private final List<HostedTool> tools = new ArrayList<>();
    private final Map<String, Hook> hooks = new LinkedHashMap<>();
    private String workspace = "";
    private @Nullable SubagentRunner subagentRunner;
    private List<String> subagents = List.of();
    private HostListener listener = new HostListener() {};

    private HostOptions(String name) {
        this.name = name;
    }

    /**
     * Lends under this name.
     *
     * @param name the host's name, for people
     * @return the options
     */
    public static HostOptions named(String name) {
        return new HostOptions(name);
    }

    /**
     * Lends to another workspace than the client's.
     *
     * @param workspace its name
     * @return this
     */
    public HostOptions workspace(String workspace) {
        this.workspace = workspace;
        return this;
    }

    /**
     * Lends tools.
     *
     * @param lent the tools
     * @return this
     */
    public HostOptions tools(HostedTool... lent) {
        return tools(List.of(lent));
    }

    /**
     * Lends tools.
     *
     * @param lent the tools
     * @return this
     */
    public HostOptions tools(List<HostedTool> lent) {
        tools.addAll(lent);
        return this;
    }

    /**
     * Runs subagents, which makes the tool {@code task} available.
     *
     * @param runner runs them
     * @param agents the agents that it can run; none for all
     * @return this
     */
    public HostOptions subagents(SubagentRunner runner, String... agents) {
        subagentRunner = runner;
        subagents = List.of(agents);
        return this;
    }

    /**
     * Takes part in every call of the workspace.
     *
     * @param point {@code tool.execute.before}, {@code tool.execute.after}, {@code tool.definition}, {@code shell.env} or
     *     {@code permission.ask}
     * @param hook what is done there
     * @return this
     */
    public HostOptions hook(String point, Hook hook) {
        hooks.put(point, hook);
        return this;
    }

    /**
     * Tells a listener what becomes of the host.
     *
     * @param listener the listener
     * @return this
     */
    public HostOptions listener(HostListener listener) {
        this.listener = listener;
        return this;
    }

    String name() {
        return name;
    }

    String workspace() {
        return workspace;
    }

    List<HostedTool> tools() {
        return List.copyOf(tools);
    }

    Map<String, Hook> hooks() {
        return Map.copyOf(hooks);
    }

    @Nullable
    SubagentRunner subagentRunner() {
        return subagentRunner;
    }

    List<String> subagents() {
        return subagents;
    }

    HostListener listener() {
        return listener;
    }
}
