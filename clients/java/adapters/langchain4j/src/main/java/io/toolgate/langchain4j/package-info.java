/**
 * The tools of a Toolgate service as tools of LangChain4j.
 *
 * <p>{@link io.toolgate.langchain4j.ToolgateTools} is a {@code ToolProvider} for {@code AiServices}.
 */
package io.toolgate.langchain4j;
